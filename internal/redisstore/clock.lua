-- A reading of one server's clock and identity (G1, G4).
return { ARGV[1], server(), string.format('%.0f', (clock())) }

module pinboard

go 1.26.8

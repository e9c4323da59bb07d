# Sourced with $root set: makes the virtual environment of interop/ and demo/
# under .cache/, anew when the requirements change, and sets $venv.
venv=$root/.cache/interop/venv
wanted=$(cksum <"$root/interop/requirements.txt")
if [ "$(cat "$venv/requirements.cksum" 2>/dev/null)" != "$wanted" ]; then
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
		echo "Python 3.11 or newer is needed" >&2
		return 1
	}
	echo "setting up a Python environment in .cache/ ..." >&2
	mkdir -p "$root/.cache/interop"
	python3 -m venv --clear "$venv" &&
		"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
			-r "$root/interop/requirements.txt" || return 1
	printf '%s\n' "$wanted" >"$venv/requirements.cksum"
fi

#!/bin/sh
# Lays out dist/python, the Python that the extension carries: server/ with what it imports, and engine/.
# The argument is a Python with pip. What is downloaded is kept in .build/server-packages until the requirements change.
set -eu
mkdir -p .build

python=$1
requirements=extension/build/server-requirements.txt
packages=.build/server-packages
target=dist/python

# Wheels for no platform and no ABI: the same files must serve every CPython from 3.11 on, on every system.
if ! cmp -s "$requirements" "$packages.txt" 2>/dev/null; then
    rm -rf "$packages"
    "$python" -m pip install --quiet --disable-pip-version-check --target "$packages" --no-compile \
        --only-binary=:all: --platform any --implementation py --abi none --python-version 3.11 \
        --no-deps --requirement "$requirements"
    # Installation records differ from machine to machine; metadata and licences stay.
    rm -rf "$packages/bin"
    find "$packages" -path '*.dist-info/*' \( -name RECORD -o -name INSTALLER -o -name REQUESTED -o -name direct_url.json \) -delete
    cp "$requirements" "$packages.txt"
fi

copy_sources() { # FROM FOLDER TO
    (cd "$1" && find "$2" -type f ! -path '*/__pycache__/*' ! -name '*.so' ! -name '*.o' -print | LC_ALL=C sort | tar -cf - -T -) |
        tar -xf - -C "$3"
}

rm -rf "$target"
mkdir -p "$target/server" "$target/engine"
copy_sources "$packages" . "$target/server"
copy_sources server dynascope_server "$target/server"
copy_sources engine dynascope "$target/engine"
cp extension/build/server_main.py "$target/server/__main__.py"

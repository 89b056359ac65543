#!/bin/bash
# Puts UCC below a prefix, from what the folder holds: install_ucc.sh FOLDER PREFIX ORIGIN
# A wheel is unpacked, a source tree is built against the system's UCX.
set -euo pipefail

readonly folder=$1 prefix=$2 origin=$3

install -d "$prefix/lib/ucc" "$prefix/include"
if compgen -G "$folder/*.whl" > /dev/null; then
    unpacked=$(mktemp -d)
    python3 -m zipfile -e "$folder"/*.whl "$unpacked"
    cd "$unpacked/nvidia/libcal/cu12"
    cp -r include/ucc "$prefix/include/"
    install -m 755 lib/libucc.so.1 "$prefix/lib/"
    ln -s libucc.so.1 "$prefix/lib/libucc.so"
    # The host-memory parts that a source build has, too. The wheel's others cannot load without
    # their vendor's libraries, and a transport that some ranks lack hangs the team.
    for part in cl_basic cl_hier ec_cpu mc_cpu tl_self tl_ucp; do
        install -m 755 "lib/ucc/libucc_$part.so" "$prefix/lib/ucc/"
    done
else
    apt-install autoconf automake g++ libtool libucx-dev make
    "$(dirname "$0")/build_ucc.sh" "$folder" "$prefix" /usr ucp,self
fi
echo "$origin" > "$prefix/ORIGIN"

#!/bin/bash
# Builds UCC from a source tree: build_ucc.sh SOURCE PREFIX UCX_PREFIX TLS [CONFIGURE_OPTION...]
# One script for every stack; what differs between them is an option.
set -euo pipefail

readonly source=$1 prefix=$2 ucx=$3 tls=$4
shift 4

cd "$source"
[[ -x configure ]] || ./autogen.sh
# Only the transports that every vendor has: one that a rank's peers lack hangs the team.
./configure --prefix="$prefix" --with-ucx="$ucx" --with-tls="$tls" --disable-static "$@"
make -j"$(nproc)"
make install
# Tuning by the local CPU makes ranks pick different algorithms.
rm -rf "${prefix:?}"/{share,bin,lib/cmake,lib/pkgconfig}
find "$prefix" -name '*.la' -delete
find "$prefix/lib" -name '*.so*' -type f -exec strip --strip-unneeded '{}' +

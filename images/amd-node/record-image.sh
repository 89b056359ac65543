#!/bin/bash
# Writes what this machine image is made of into /etc/crossvendor/amd-node, and says it in the log.
# RENDER_GID and VIDEO_GID are the groups that the image's tags promise to pods.
set -euo pipefail

: "${RENDER_GID:?}" "${VIDEO_GID:?}"
readonly ROOT=${ROOT:-} # another file system than this machine's, for tests

gid() { # GROUP
    awk -F: -v name="$1" '$1 == name { print $3 }' "$ROOT/etc/group"
}

for group in render:"$RENDER_GID" video:"$VIDEO_GID"; do
    found=$(gid "${group%:*}")
    [[ $found == "${group#*:}" ]] || {
        echo "record-image: group ${group%:*} is '$found', and the tags say ${group#*:}." >&2
        exit 1
    }
done

# Apart from the text below, where a command that fails would go unnoticed.
serial=$(awk '$1 == "serial:" { print $2 }' "$ROOT/etc/cloud/build.info")
kernel=$(uname -r)
driver_from=$(cat "$ROOT/var/lib/crossvendor/amd-node")
module=$(modinfo --field filename amdgpu)
firmware=$(dpkg-query --show --showformat='${Version}' linux-firmware)

mkdir -p "$ROOT/etc/crossvendor"
tee "$ROOT/etc/crossvendor/amd-node" <<END
parent_serial=$serial
kernel=$kernel
driver_from=$driver_from
module=$module
firmware=$firmware
render_gid=$RENDER_GID
video_gid=$VIDEO_GID
END

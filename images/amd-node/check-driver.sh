#!/bin/bash
# Says whether this machine's GPU can compute: 0, or 1 with one sentence per fault.
# GFX_TARGET_VERSION is what the GPU has to be, RENDER_GID whom its devices have to belong to;
# ROOT is another file system than this machine's, for tests.
set -euo pipefail

: "${GFX_TARGET_VERSION:?}" "${RENDER_GID:?}"
readonly ROOT=${ROOT:-}

is_good=true
fault() {
    echo "check-driver: $1" >&2
    is_good=false
}

for device in /dev/kfd /dev/dri/renderD128; do
    if [[ ! -c $ROOT$device ]]; then
        fault "$device is no character device."
        continue
    fi
    group=$(stat --dereference --format=%g "$ROOT$device")
    [[ $group == "$RENDER_GID" ]] ||
        fault "$device belongs to group $group, and pods get $RENDER_GID."
done

num_gpus=0
for node in "$ROOT"/sys/class/kfd/kfd/topology/nodes/*; do
    # The CPU is a node too, and its gpu_id is 0.
    [[ -r $node/gpu_id && $(< "$node/gpu_id") != 0 ]] || continue
    num_gpus=$((num_gpus + 1))
    target=$(awk '$1 == "gfx_target_version" { print $2 }' "$node/properties" 2> /dev/null || true)
    [[ $target == "$GFX_TARGET_VERSION" ]] ||
        fault "GPU ${node##*/} is of target '$target', and not $GFX_TARGET_VERSION."
done
[[ $num_gpus != 0 ]] || fault "no node of the KFD's topology is a GPU."

if ! $is_good; then
    dmesg 2> /dev/null | grep -iE 'amdgpu|kfd' | tail -n 30 >&2 || true
    exit 1
fi
echo "check-driver: $num_gpus GPUs of target $GFX_TARGET_VERSION can compute."

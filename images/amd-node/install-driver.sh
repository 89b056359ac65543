#!/bin/bash
# Installs the amdgpu driver on an Ubuntu image for EKS, and keeps it from changing afterwards.
# Three ways, in this order: the running kernel's own driver, the LTS kernel's, AMD's module for
# the latter. After each it exits with 194: Image Builder restarts the machine and runs the same
# script again. 0 when check-driver.sh is content, 1 when no way is left.
set -euo pipefail

: "${RENDER_GID:?}" "${LTS_KERNEL:?}" "${LTS_SERIES:?}"
: "${DKMS_PACKAGE:?}" "${DKMS_SOURCE:?}" "${DKMS_KEY_URL:?}" "${DKMS_KEY:?}"
readonly ROOT=${ROOT:-} # another file system than this machine's, for tests
readonly STATE=$ROOT/var/lib/crossvendor/amd-node # the way that was tried last
readonly RESTART=194

fail() {
    echo "install-driver: $1" >&2
    exit 1
}

packages() {
    # needrestart would restart Systems Manager's agent, and this script with it.
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

installed() { # PATTERN...: names of installed packages, held or not
    dpkg-query --show --showformat='${db:Status-Abbrev} ${Package}\n' "$@" 2> /dev/null |
        awk '$1 ~ /^.i/ { print $2 }'
}

prepare() {
    # The build instance reaches port 443 and no other.
    sed -i 's|http://|https://|' "$ROOT"/etc/apt/sources.list.d/*.sources
    systemctl mask apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service
    cat > "$ROOT/etc/apt/apt.conf.d/99-crossvendor" <<'CONF'
APT::Periodic::Enable "0";
APT::Periodic::Unattended-Upgrade "0";
CONF
    echo amdgpu > "$ROOT/etc/modules-load.d/amdgpu.conf"
    # Pods name the devices' group by number, and Ubuntu gives `render` the next free one.
    getent group render > /dev/null || groupadd --system render
    groupmod --gid "$RENDER_GID" render
    packages update
}

install_modules() { # KERNEL: firmware, and the modules that Ubuntu packs apart
    local wanted=(linux-firmware)
    # Kernel 7.0 has no such package: its linux-modules holds every driver.
    if apt-cache show "linux-modules-extra-$1" > /dev/null 2>&1; then
        wanted+=("linux-modules-extra-$1")
    fi
    packages install --no-install-recommends "${wanted[@]}"
}

install_lts() {
    local kernel
    packages install --no-install-recommends "$LTS_KERNEL"
    kernel=$(find "$ROOT/boot" -name "vmlinuz-$LTS_SERIES.*-aws" | sort -V | tail -n 1)
    kernel=${kernel##*/vmlinuz-}
    [[ -n $kernel ]] || fail "$LTS_KERNEL brought no kernel $LTS_SERIES."
    install_modules "$kernel"
    # GRUB starts the newest kernel by itself, which is the one that did not do.
    mkdir -p "$ROOT/etc/default/grub.d"
    echo "GRUB_DEFAULT=\"Advanced options for Ubuntu>Ubuntu, with Linux $kernel\"" \
        > "$ROOT/etc/default/grub.d/99-crossvendor.cfg"
    update-grub
    grep -qF "'Ubuntu, with Linux $kernel'" "$ROOT/boot/grub/grub.cfg" ||
        fail "GRUB has no entry for $kernel."
}

install_dkms() {
    local kernel key=/etc/apt/keyrings/amdgpu.asc others
    kernel=$(uname -r)
    [[ $kernel == "$LTS_SERIES".* ]] || fail "kernel $kernel runs, and GRUB was told $LTS_SERIES."
    # DKMS builds for the newest kernel with headers too, for which this module is too old.
    mapfile -t others < <(installed 'linux-headers-*-aws' | grep -vxF "linux-headers-$kernel")
    [[ ${#others[@]} == 0 ]] || packages purge "${others[@]}"
    packages install --no-install-recommends ca-certificates curl gpg
    mkdir -p "$ROOT/etc/apt/keyrings"
    curl --fail --silent --show-error --proto '=https' --output "$ROOT$key" "$DKMS_KEY_URL"
    [[ $(primary_keys "$ROOT$key") == "$DKMS_KEY" ]] || fail "$DKMS_KEY_URL has another key."
    echo "deb [arch=amd64 signed-by=$key] $DKMS_SOURCE main" \
        > "$ROOT/etc/apt/sources.list.d/amdgpu.list"
    packages update
    packages install --no-install-recommends "linux-headers-$kernel" "$DKMS_PACKAGE"
}

primary_keys() { # FILE: fingerprints of its keys, without those below them
    gpg --show-keys --with-colons "$1" |
        awk -F: '$1 == "pub" { wanted = 1 } $1 == "fpr" && wanted { print $10; wanted = 0 }'
}

hold() {
    local names
    mapfile -t names < <(installed 'linux-*' 'amdgpu-dkms*' |
        grep -E '^(linux-(aws|image|modules|headers|firmware)|amdgpu-dkms)')
    [[ ${#names[@]} != 0 ]] || fail "no kernel is installed as a package."
    apt-mark hold "${names[@]}"
    packages clean
}

stage=$(cat "$STATE" 2> /dev/null || true)
if [[ -n $stage ]] && "$(dirname "$0")/check-driver.sh"; then
    hold
    exit 0
fi
case $stage in
    '')
        prepare
        install_modules "$(uname -r)"
        next=running
        ;;
    running)
        install_lts
        next=lts
        ;;
    lts)
        install_dkms
        next=dkms
        ;;
    *) fail "no driver brought the GPU up; the kernel's last words are above." ;;
esac
mkdir -p "${STATE%/*}"
echo "$next" > "$STATE"
exit "$RESTART"

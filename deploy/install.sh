#!/usr/bin/env bash
# Install assayd on this host from a wheel, or take it away again. Safe to repeat; upgrading is installing the new wheel.
#
#   install.sh install [--root DIR] WHEEL    a private virtual environment, units, samples, manual pages
#   install.sh uninstall [--purge]           everything but settings and state; with --purge these too
#
# --root lays the files out below DIR and does nothing else; the Debian package is made that way.
# Environment: PYTHON, which interpreter runs it (default: /usr/bin/python3).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
python=${PYTHON:-/usr/bin/python3}
lib=usr/lib/assayd
doc=usr/share/doc/assayd

# Where each of our own files goes, relative to the root; settings are apart, because they may have been changed.
files=(
    systemd/assayd.service usr/lib/systemd/system/assayd.service
    systemd/assayd.socket usr/lib/systemd/system/assayd.socket
    systemd/assayd-gateway.service usr/lib/systemd/system/assayd-gateway.service
    systemd/assayd-gateway.socket usr/lib/systemd/system/assayd-gateway.socket
    systemd/assayd-gateway.service usr/lib/systemd/system/assayd-gateway@.service
    systemd/assayd-gateway.socket usr/lib/systemd/system/assayd-gateway@.socket
    systemd/assayd-node.service usr/lib/systemd/system/assayd-node.service
    systemd/assay-console.service usr/lib/systemd/user/assay-console.service
    systemd/assay-compat.service usr/lib/systemd/user/assay-compat.service
    systemd/assayd.sysusers usr/lib/sysusers.d/assayd.conf
    systemd/assayd.tmpfiles usr/lib/tmpfiles.d/assayd.conf
    systemd/egress.conf $doc/examples/egress.conf
    systemd/oci.conf $doc/examples/oci.conf
    systemd/assayd-user.service $doc/examples/assayd-user.service
    etc/assayd.toml $doc/examples/assayd.toml
    grafana/assayd.json $doc/examples/grafana/assayd.json
    grafana/cluster.json $doc/examples/grafana/cluster.json
    rabbitmq/definitions.json $doc/examples/rabbitmq/definitions.json
    prometheus/alerts.yml $doc/examples/prometheus/alerts.yml
    ../requirements/run.txt usr/share/assayd/requirements/run.txt
    ../requirements/anthropic.txt usr/share/assayd/requirements/anthropic.txt
    ../requirements/cluster.txt usr/share/assayd/requirements/cluster.txt
    ../requirements/gemini.txt usr/share/assayd/requirements/gemini.txt
    ../requirements/lsp.txt usr/share/assayd/requirements/lsp.txt
    ../requirements/mcp.txt usr/share/assayd/requirements/mcp.txt
    ../requirements/openai.txt usr/share/assayd/requirements/openai.txt
    ../requirements/otel.txt usr/share/assayd/requirements/otel.txt
)
made=(
    usr/bin/assay usr/bin/assayd usr/bin/assayd-gateway usr/bin/assayd-node usr/sbin/assayd-extras
    usr/share/man/man1/assay.1.gz
    usr/share/man/man8/assayd.8.gz usr/share/man/man8/assayd-gateway.8.gz usr/share/man/man8/assayd-node.8.gz
    usr/share/bash-completion/completions/assay usr/share/zsh/vendor-completions/_assay
    usr/share/fish/vendor_completions.d/assay.fish
)

say() { printf 'install: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
systemd_runs() { [ -d /run/systemd/system ]; }

# --- files ------------------------------------------------------------------------------------------------

# Make the environment anew: what an older version left in it must not be found.
make_environment() {
    local root=$1 wheel=$2 target=$1/$lib
    rm -rf "$target.new"
    "$python" -m venv "$target.new" || die "'$python' cannot make virtual environments (Debian: apt-get install python3-venv)"
    pip() { "$target.new/bin/python3" -m pip -qq --disable-pip-version-check --no-input "$@"; }
    pip install --no-compile --no-deps --require-hashes -r "$here/../requirements/run.txt"
    pip install --no-compile --no-deps "$wheel"
    pip uninstall -y pip setuptools
    # Scripts of the packages in it are none of ours, and name the place where it was made; shfmt is no script.
    find "$target.new/bin" -mindepth 1 ! -name 'python*' ! -name shfmt -delete
    printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' \
        "$("$python" -c 'import platform; print(platform.python_version())')" >"$target.new/pyvenv.cfg"
    # What `assayd-extras` adds is found there, after everything else.
    local minor
    minor=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    printf '/opt/assayd/lib/%s/site-packages\n' "$minor" >"$target.new/lib/$minor/site-packages/assayd-extras.pth"
    # Bytecode that is never compared with its source: the service cannot write it, and no time gets into it.
    PYTHONHASHSEED=0 "$target.new/bin/python3" -m compileall -q -f --invalidation-mode unchecked-hash \
        -s "$target.new" -p "/$lib" "$target.new/lib"
    rm -rf "$target"
    mv "$target.new" "$target"
}

place_files() {
    local root=$1 i
    for ((i = 0; i < ${#files[@]}; i += 2)); do
        install -D -m 0644 "$here/${files[i]}" "$root/${files[i + 1]}"
    done
    "$root/$lib/bin/python3" "$here/documents.py" "$root/$doc"
    install -m 0755 -D "$here/extras.sh" "$root/usr/sbin/assayd-extras"
    install -m 0644 "$here/../LICENSE" "$root/$doc/copyright"
    launcher "$root/usr/bin/assay" assayd_client.cli
    launcher "$root/usr/bin/assayd" assayd.__main__
    launcher "$root/usr/bin/assayd-gateway" assayd_cluster.gateway.__main__
    launcher "$root/usr/bin/assayd-node" assayd_cluster.node.__main__
    place_pages "$root"
}

launcher() {
    mkdir -p "$(dirname "$1")"
    printf '#!/%s/bin/python3 -I\nimport sys\n\nfrom %s import main\n\nsys.exit(main())\n' "$lib" "$2" >"$1"
    chmod 0755 "$1"
}

place_pages() {
    local root=$1 pages
    pages=$(mktemp -d)
    # Below another root, packages are found through the path: what the environment says of itself is not true yet.
    PYTHONDONTWRITEBYTECODE=1 "$root/$lib/bin/python3" "$here/manual_pages.py" man "$pages"
    PYTHONDONTWRITEBYTECODE=1 "$root/$lib/bin/python3" "$here/manual_pages.py" completions "$pages/completions"
    gzip -9n "$pages"/*.[18]
    install -D -m 0644 "$pages/assay.1.gz" "$root/usr/share/man/man1/assay.1.gz"
    install -D -m 0644 -t "$root/usr/share/man/man8" "$pages"/*.8.gz
    install -D -m 0644 "$pages/completions/assay" "$root/usr/share/bash-completion/completions/assay"
    install -D -m 0644 "$pages/completions/_assay" "$root/usr/share/zsh/vendor-completions/_assay"
    install -D -m 0644 "$pages/completions/assay.fish" "$root/usr/share/fish/vendor_completions.d/assay.fish"
    rm -rf "$pages"
}

# Settings are placed once and are the operator's from then on.
place_settings() {
    local root=$1
    install -d -m 0755 "$root/etc/assayd" "$root/etc/assayd/policies"
    [ -e "$root/etc/assayd/assayd.toml" ] || install -m 0644 "$here/etc/assayd.toml" "$root/etc/assayd/assayd.toml"
    [ -e "$root/etc/assayd/assayd.env" ] || install -m 0600 "$here/etc/assayd.env" "$root/etc/assayd/assayd.env"
}

# --- the host ---------------------------------------------------------------------------------------------

require_host() {
    [ "$(id -u)" -eq 0 ] || die "only root can do that"
    if dpkg-query --show --showformat '${db:Status-Status}' assayd 2>/dev/null | grep -qx installed; then
        die "assayd is installed as a Debian package here; use apt"
    fi
}

activate() {
    if ! systemd_runs; then
        say "systemd does not run here: make the user assayd and start /usr/bin/assayd as you start other services"
        return
    fi
    systemd-sysusers assayd.conf
    systemd-tmpfiles --create assayd.conf
    systemctl daemon-reload
    systemctl enable --quiet assayd.socket assayd.service
    systemctl start assayd.socket
    # Also after an upgrade; what was accepted is taken up again.
    systemctl restart assayd.service || die "the service does not start: journalctl -u assayd"
    say "assayd runs; 'assay doctor' says what it lacks"
}

deactivate() {
    if systemd_runs; then
        local unit
        for unit in assayd-node.service assayd-gateway.service assayd-gateway.socket \
            /etc/systemd/system/{multi-user,sockets}.target.wants/assayd-gateway@*; do
            systemctl disable --quiet --now "${unit##*/}" 2>/dev/null || true
        done
        systemctl disable --quiet --now assayd.service assayd.socket 2>/dev/null || true
    fi
}

# --- verbs ------------------------------------------------------------------------------------------------

do_install() {
    local root=/ wheel=
    while [ $# -gt 0 ]; do
        case $1 in
            --root) root=${2:?--root needs a folder}; shift 2 ;;
            *) wheel=$1; shift ;;
        esac
    done
    [ -f "$wheel" ] || die "name the wheel: install.sh install dist/assayd-….whl"
    [ "$root" != / ] || require_host
    make_environment "${root%/}" "$wheel"
    place_files "${root%/}"
    place_settings "${root%/}"
    [ "$root" != / ] || activate
}

do_uninstall() {
    local i
    require_host
    deactivate
    for ((i = 1; i < ${#files[@]}; i += 2)); do rm -f "/${files[i]}"; done
    for i in "${made[@]}"; do rm -f "/$i"; done
    rm -rf "/${lib:?}" "/${doc:?}" /usr/share/assayd /run/assayd
    if systemd_runs; then systemctl daemon-reload; fi
    if [ "${1:-}" = --purge ]; then
        rm -rf /etc/assayd /var/lib/assayd /var/lib/assayd-gateway /var/lib/assayd-gateway@* /var/cache/assayd /opt/assayd
        say "removed, with settings and state; the users and groups stay"
    else
        say "removed; settings (/etc/assayd) and state (/var/lib/assayd) stay, --purge removes them"
    fi
}

case "${1:-}" in
    install) shift; do_install "$@" ;;
    uninstall) shift; do_uninstall "$@" ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac

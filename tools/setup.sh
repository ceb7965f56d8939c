#!/usr/bin/env bash
# Install what `make` needs: missing Debian packages, a virtual environment, the build.
#
# usage: tools/setup.sh packages openmpi|openmpi5|mpich|none|asan|lint|fuzz|optional
#        tools/setup.sh venv     openmpi|openmpi5|mpich|none DIR
#        tools/setup.sh pip      tests|lint|docs DIR
#        tools/setup.sh build    openmpi|openmpi5|mpich|none DIR
#        tools/setup.sh constraints
#
# Python packages have the versions of tools/constraints.txt; in a folder that ends in -newest, they
# are the newest ones.  Each step prints how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."

step=$1 mpi=${2:-} venv=${3:-}
packages=()

# want TEST PACKAGE...: the packages are needed if the test fails
want() {
    local test=$1
    shift
    bash -c "$test" >/dev/null 2>&1 || packages+=("$@")
}

install_packages() {
    want 'cc -E -include stdio.h - </dev/null' build-essential
    want 'python3 -m ensurepip --version' python3 python3-venv
    want 'python3 -c "import sysconfig; open(sysconfig.get_path(\"include\") + \"/Python.h\")"' \
        python3-dev
    want 'cc -E -include stdarg.h -include stddef.h -include stdint.h -include setjmp.h \
        -include cmocka.h - </dev/null' libcmocka-dev
    if [ "$mpi" != asan ]; then
        want 'cc -E -include stdint.h -include metis.h - </dev/null' libmetis-dev
        want 'cc -E -include stdio.h -include scotch/scotch.h - </dev/null' libscotch-dev
    fi
    if [ "$mpi" = openmpi ]; then
        want 'command -v mpicc && command -v mpiexec' libopenmpi-dev openmpi-bin
        want 'PATH=$PATH:/usr/sbin:/sbin; command -v ip && command -v tc' iproute2 # for the lab's hosts
        want 'test -e /usr/include/trilinos/zoltan.h' libtrilinos-zoltan-dev # linked with Open MPI
        want 'test -e /usr/include/scotch/ptscotch.h' libptscotch-dev
    fi
    if [ "$mpi" = asan ]; then
        want 'command -v valgrind' valgrind
    fi
    if [ "$mpi" = lint ]; then
        want 'command -v clang-tidy' clang-tidy
    fi
    if [ "$mpi" = fuzz ]; then
        want 'command -v clang' clang libclang-rt-14-dev
    fi
    if [ "$mpi" = optional ]; then
        want 'command -v gfortran' gfortran
        want 'command -v chromium || command -v chromium-browser' chromium
    fi
    if [ ${#packages[@]} -eq 0 ]; then
        return
    fi
    local line="apt-get install -y --no-install-recommends ${packages[*]}"
    local become=()
    if [ "$(id -u)" -ne 0 ]; then
        become=(sudo -n)
    fi
    if ! command -v apt-get >/dev/null || ! "${become[@]}" true 2>/dev/null; then
        echo "setup: missing here: ${packages[*]}; as root, run: $line" >&2
        exit 1
    fi
    echo "setup: $line" >&2
    "${become[@]}" apt-get update -qq >&2
    "${become[@]}" env DEBIAN_FRONTEND=noninteractive $line -qq -o Dpkg::Use-Pty=0 >&2
}

# The modules are compiled when they are first imported: most of them never are.
pip_install() {
    local lines requirements versions=(--constraint tools/constraints.txt)
    lines=$(python3 tools/requirements.py "$mpi")
    mapfile -t requirements <<<"$lines"
    if [[ $venv == *-newest ]]; then
        versions=(--upgrade --upgrade-strategy eager)
    fi
    echo "setup: installing ${#requirements[@]} Python packages into $venv" >&2
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-warn-conflicts \
        --no-compile "${versions[@]}" "${requirements[@]}" >&2
}

make_venv() {
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    pip_install
}

# The tests end at any warning: also at those that Python gives when it compiles a package.  What
# they never import, a third of the packages, is left out.
install_tests() {
    pip_install
    "$venv/bin/python" -m compileall -qq -j 0 -x '/(tests|debugpy|fontTools|lexers)/' "$venv/lib" || true
}

# For all versions of Python at once, with markers such as: numpy==2.2.6 ; python_version < '3.11'.
make_constraints() {
    local made=out/constraints
    mkdir -p out
    [ -x "$made/bin/uv" ] || { python3 -m venv "$made" && "$made/bin/python" -m pip install -qq uv; }
    {
        echo "# Python packages for set-up and tests: those of $(date -u +%Y-%m-%d), for Linux and Python 3.10 to"
        echo "# 3.13.  \`make constraints\` writes this file; \`make test-newest\` does not use it."
        python3 tools/requirements.py all |
            "$made/bin/uv" pip compile -q --universal --python-version 3.10 --native-tls \
                --no-header --no-annotate - |
            grep -v "sys_platform == '\(win32\|darwin\|emscripten\)'$"
    } >out/constraints.txt
    mv out/constraints.txt tools/constraints.txt
}

# Each environment builds in its own folder, so that object files of different MPIs do not mix.
build() {
    local here extra=() build
    here=$(pwd)
    build=$(realpath "$venv")/build
    mkdir -p "$build"
    printf '[build]\nbuild_base = %s\n' "$build" >"$build/setup.cfg"
    export DIST_EXTRA_CONFIG="$build/setup.cfg"
    unset MAKEFLAGS MFLAGS # setup.py starts a make of its own
    case $mpi in
    openmpi) # editable: the environment to work in; with MPICC, a failed build is an error
        [[ $venv == *-newest ]] || extra=(-e)
        export MPICC="${MPICC:-mpicc}"
        ;;
    mpich | openmpi5) export MPICC="$here/$venv/bin/mpicc" ;;
    none) export PYLB_MPI=0 ;;
    esac
    echo "setup: building pylb in $venv" >&2
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps \
        --no-build-isolation --force-reinstall "${extra[@]}" . >&2
}

case $step in
packages) install_packages ;;
venv) make_venv ;;
pip) if [ "$mpi" = tests ]; then install_tests; else pip_install; fi ;;
build) build ;;
constraints) make_constraints ;;
esac
if [ "$SECONDS" -gt 0 ]; then
    echo "setup: $step $mpi took $SECONDS s" >&2
fi

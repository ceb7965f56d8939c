"""Build the C core; pyproject.toml has all other data of the project.

pylb._core needs only a C compiler and NumPy.  pylb._mpi, pylb._record and pylb._pmpi are built if
there is an MPI compiler (MPICC, else mpicc on the PATH).  pylb._metis and pylb._scotch
are built if their library is found (by pkg-config, else by its name); so are pylb._zoltan and
pylb._dgraph, which also need MPI.  The build prints what it leaves out.

The C library (csrc/lib) is built into pylb/lib.

Environment variables: MPICC=path; PYLB_MPI=0: build no module that needs MPI; PLB_DEBUG=1: no
optimisation; PLB_SANITIZE=1: address and undefined-behaviour sanitizers; PLB_WERROR=1: warnings are
errors.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOMS = ["base", "model", "measure", "partition", "place", "place/strategies"]
ROOMS += ["decide", "decide/triggers", "replay", "whatif", "whatif/simulator", "run"]
MPI_SHELLS = ["comm_ranks"]
BOTH_SHELLS = ["convert", "measure_stats", "views"]
CORES = len(os.sched_getaffinity(0))
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wmissing-declarations",
]


def sources(*folders):
    return sorted(str(p) for f in folders for p in Path("csrc", f).glob("*.c"))


def headers():
    return sorted(str(p) for p in Path("csrc").rglob("*.h"))


def flags():
    out = ["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-ffp-contract=off", *WARNINGS]
    out += ["-O0", "-g"] if os.environ.get("PLB_DEBUG") else ["-O3", "-g1"]
    if os.environ.get("PLB_WERROR"):
        out += ["-Werror"]
    if os.environ.get("PLB_SANITIZE"):
        out += ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
    return out


def extension(name, files, include=(), compile_args=(), link_args=()):
    sanitize = ["-fsanitize=address,undefined"] if os.environ.get("PLB_SANITIZE") else []
    return Extension(
        name,
        files,
        include_dirs=["csrc", numpy.get_include(), *include],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=[*flags(), *compile_args],
        # These come first: setuptools adds the folder of libpython, which may have another MPI.
        library_dirs=[word[2:] for word in link_args if word.startswith("-L")],
        extra_link_args=[*sanitize, *link_args],
        depends=headers(),
    )


def say(text):
    print(f"pylb: {text}", file=sys.stderr)


def mpi_words():
    """Return (mpicc, its compile and link words); without MPI, return None."""
    if os.environ.get("PYLB_MPI") == "0":
        return None
    mpicc = os.environ.get("MPICC") or shutil.which("mpicc")
    if not mpicc:
        say("no mpicc found: building without MPI")
        return None
    try:
        shown = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        say(f"{why}: building without MPI")
        return None
    return mpicc, shlex.split(shown.stdout)[1:]


def split_words(words):
    """Return the words for the compiler, and those for the linker.

    The headers of libraries become system headers, in which the compiler gives no warnings.
    """
    linking = [w for w in words if not w.startswith(("-I", "-D"))]
    compiling = [w.replace("-I", "-isystem", 1) for w in words if w not in linking]
    return compiling, linking


def mpi_extension(mpicc, words):
    """Return the extension pylb._mpi."""
    say(f"building pylb._mpi with {mpicc}")
    compile_args, link_args = split_words(words)
    out = extension(
        "pylb._mpi",
        sources("base", "model", "measure")
        + [f for f in sources("comm") if "/transport_" not in f]  # this belongs to the C library
        + [f"csrc/bind/{f}.c" for f in (*MPI_SHELLS, *BOTH_SHELLS)],
        compile_args=compile_args,
        link_args=link_args,
    )
    # If pylb._mpi cannot be built, pylb is installed without it; with MPICC, that is an error.
    out.optional = "MPICC" not in os.environ
    return out


def recorder_extension(mpicc, words):
    """Return the library that `pylb record` preloads into programs; it is not a Python module."""
    compile_args, link_args = split_words(words)
    out = extension(
        "pylb._record",
        [
            *sources("whatif/recorder"),
            *(f"csrc/base/{f}.c" for f in ("clock", "err", "hash", "mem")),
        ],
        include=["csrc/whatif/recorder"],
        compile_args=compile_args,
        link_args=[*link_args, "-pthread"],
    )
    out.optional = "MPICC" not in os.environ
    return out


def pmpi_extension(mpicc, words):
    """Return libpylb_pmpi for `pylb run`, which preloads it; it is not a Python module."""
    compile_args, link_args = split_words(words)
    files = ("wrap_c", "wrap_fortran", "mpi_clock")
    out = extension(
        "pylb._pmpi",
        [*(f"csrc/whatif/recorder/{f}.c" for f in files), "csrc/base/clock.c"],
        include=["csrc/whatif/recorder"],
        compile_args=[*compile_args, "-DPLB_CLOCK_ONLY", "-ftls-model=initial-exec"],
        link_args=[*link_args, "-pthread"],
    )
    out.optional = "MPICC" not in os.environ
    return out


def pkg_config(package):
    """Return the compile and link words of a package; [] without pkg-config or package."""
    if not package or not shutil.which("pkg-config"):
        return []
    command = ["pkg-config", "--cflags", "--libs", package]
    found = subprocess.run(command, capture_output=True, text=True)
    return shlex.split(found.stdout) if found.returncode == 0 else []


def links(header, words):
    """Say whether a program with this header can be built, and loads at most one MPI library."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        text = f"#include <stdio.h>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
        source.write_text(text)
        compile_args, link_args = split_words(words)
        cc = shlex.split(os.environ.get("CC", "cc"))
        command = [*cc, *compile_args, str(source), "-o", str(program)]
        command += ["-Wl,--no-as-needed", *link_args]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return False
        loaded = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
    return len(set(re.findall(r"libmpi\w*\.so\.\d+", loaded))) <= 1


# Module, header, name for pkg-config, words for compiler and linker without pkg-config.
PARTITIONERS = [
    ("metis", "metis.h", "metis", ["-lmetis"]),
    ("scotch", "scotch.h", "scotch", ["-I/usr/include/scotch", "-lscotch"]),
    ("zoltan", "zoltan.h", "zoltan", ["-I/usr/include/trilinos", "-ltrilinos_zoltan"]),
    ("zoltan", "zoltan.h", "", ["-lzoltan"]),
]


def partitioner_extensions(mpi):
    """Return the extensions for the partitioning libraries that are installed."""
    out = {}
    for name, header, package, plain in PARTITIONERS:
        if name in out or (name == "zoltan" and mpi is None):
            continue
        words = pkg_config(package) or plain
        if name == "zoltan":
            words = [*words, *mpi[1]]
        if not links(header, words):
            continue
        say(f"building pylb._{name} with {' '.join(words)}")
        compile_args, link_args = split_words(words)
        files = ["base/err", "base/mem", f"partition/libraries/{name}", f"bind/{name}module"]
        if name == "zoltan":  # this module takes NumPy's arrays and mpi4py's communicators
            files += ["bind/views", "base/interrupt"]
        out[name] = extension(
            f"pylb._{name}",
            [f"csrc/{f}.c" for f in files],
            compile_args=compile_args,
            link_args=[*link_args, "-pthread"],
        )
        out[name].optional = True
    for name in {name for name, *_ in PARTITIONERS} - set(out):
        say(f"no suitable {name} found: building without pylb._{name}")
    return list(out.values())


def dgraph_extension(mpi, found):
    """Return pylb._dgraph, if Zoltan is installed, and PT-Scotch with the same MPI."""
    words = [*pkg_config("zoltan"), "-I/usr/include/trilinos", "-ltrilinos_zoltan"]
    words += ["-I/usr/include/scotch", "-lptscotch", "-lscotch", "-lptscotcherr"]
    words += mpi[1] if mpi else []
    if "pylb._zoltan" not in [e.name for e in found] or not links("ptscotch.h", words):
        say("no Zoltan with PT-Scotch found: building without pylb._dgraph")
        return []
    say("building pylb._dgraph")
    compile_args, link_args = split_words(words)
    out = extension(
        "pylb._dgraph",
        sources("base", "model", "measure")
        + [f"csrc/partition/libraries/{f}.c" for f in ("zoltan_color", "ptscotch_order")]
        + [f"csrc/bind/{f}.c" for f in ("dgraphmodule", "views")],
        compile_args=compile_args,
        link_args=[*link_args, "-pthread"],
    )
    out.optional = True
    return [out]


def extensions():
    others = "|".join((r"\w+module", *MPI_SHELLS))
    core = [f for f in sources(*ROOMS, "bind") if not re.search(rf"/bind/({others})\.c$", f)]
    core.append("csrc/bind/coremodule.c")
    core += [f"csrc/comm/{f}.c" for f in ("alone", "route", "share_plan")]  # need no MPI
    core.append("csrc/lib/experience.c")
    mpi = mpi_words()
    out = [extension("pylb._core", core, link_args=["-lm", "-pthread"])]
    made = (mpi_extension, recorder_extension, pmpi_extension)
    with_mpi = [make(*mpi) for make in made] if mpi else []
    found = partitioner_extensions(mpi)
    return [*out, *with_mpi, *found, *dgraph_extension(mpi, found)]


class WithLibrary(build_ext):
    """Build the extensions, several files at a time, and the C library into pylb/lib."""

    def build_extensions(self):
        """Compile a file once for all extensions that contain it with the same -DPLB_ words."""
        compile_all, self.made = self.compiler.compile, {}

        def compile_each(sources, output_dir, **how):
            defined = [word for word in how["extra_postargs"] if word.startswith("-DPLB_")]
            folder = "".join([output_dir, *defined])
            missing = [source for source in sources if (folder, source) not in self.made]
            with ThreadPool(CORES) as pool:
                new = pool.map(lambda s: compile_all([s], output_dir=folder, **how)[0], missing)
            self.made.update(zip([(folder, source) for source in missing], new, strict=True))
            return [self.made[folder, source] for source in sources]

        self.compiler.compile = compile_each
        super().build_extensions()

    def keep_objects(self, folder):
        """Give the C library the objects of pylb._core, unless they need a special linker."""
        if "PLB_SANITIZE" in os.environ or "-flto" in str(sysconfig.get_config_var("CFLAGS")):
            return
        folder.mkdir(parents=True, exist_ok=True)
        for (made_in, source), made in self.made.items():
            if made_in == self.build_temp:
                name = Path(source).relative_to("csrc").with_suffix(".o").as_posix()
                shutil.copyfile(made, folder / name.replace("/", "_"))

    def run(self):
        super().run()
        here = Path() if self.inplace else Path(self.build_lib)
        target, out = here / "pylb" / "lib", Path(self.build_temp, "lib").resolve()
        self.keep_objects(out / "core")
        mpi = mpi_words()
        words = ["make", "-s", "-C", "csrc/lib", f"-j{CORES}", f"OUT={out}"]
        command = [*words, f"MPICC={mpi[0] if mpi else ''}", "FC="]
        say("building the C library")
        if not shutil.which("make") or subprocess.run(command).returncode != 0:
            say("the C library is left out; the lines above say why, or there is no make")
            return
        target.mkdir(parents=True, exist_ok=True)
        for made in (*Path("csrc/lib").glob("pylb*.[hf]*"), *sorted(out.glob("libpylb*.*"))):
            shutil.copyfile(made, target / made.name)


setup(ext_modules=extensions(), cmdclass={"build_ext": WithLibrary})

"""Builds the kernels of native/; everything else about the project is in pyproject.toml.

Each kernel has a plain definition beside it, so a machine without a C compiler still gets a working broker:
the extensions are optional, and `leveret doctor` says which kind is in use.
Nothing here names a processor: a kernel that wants an instruction asks for it at run time (native/_crc32c.h).
"""

from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

# Whoever includes one of these is built again when it changes.
SHARED = sorted(glob("native/*.h") + glob("native/*.pxd"))

KERNELS = [
    Extension(
        path[: -len(".pyx")].replace("/", "."),
        [path],
        depends=SHARED,
        include_dirs=["native"],
        extra_compile_args=["-O3"],
    )
    for path in sorted(glob("native/_*.pyx"))
]

BUILT = cythonize(KERNELS, language_level=3, build_dir="build/cython")
for extension in BUILT:
    extension.optional = True  # said here, because cythonize does not hand it on

setup(ext_modules=BUILT)

"""Builds libqgrad.so by make and puts it into the package.  No file of it depends on the version of Python."""
import os
import re
import shutil
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    with open(os.path.join(root, "qgrad.h")) as f:
        version = re.search(r'QGRAD_VERSION "(.*)"', f.read()).group(1)
except FileNotFoundError:
    sys.exit("error: %s is not in the source tree of qgrad: pip before 21.3 copies this directory alone, so "
             "install with pip 21.3 or later" % os.path.dirname(os.path.abspath(__file__)))

# After that message, which must not depend on the version of setuptools.
from setuptools import Distribution, setup                          # noqa: E402
from setuptools.command.bdist_wheel import bdist_wheel              # noqa: E402
from setuptools.command.build_py import build_py                    # noqa: E402


class BuildLibrary(build_py):
    def run(self):
        super().run()
        library = os.path.join("build", "libqgrad.so." + version)
        subprocess.check_call(["make", "-C", root, "-j%d" % (os.cpu_count() or 1), "BUILD=build", library])
        shutil.copyfile(os.path.join(root, library), os.path.join(self.build_lib, "qgrad", "libqgrad.so"))


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none") + super().get_tag()[2:]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


# What is built goes to build/, as all else.
place = {"build": {"build_base": os.path.join(root, "build", "python")}, "egg_info": {"egg_base": os.path.join(root, "build")}}
os.makedirs(os.path.join(root, "build"), exist_ok=True)

setup(version=version, options=place, distclass=WithLibrary, cmdclass={"build_py": BuildLibrary, "bdist_wheel": Wheel})

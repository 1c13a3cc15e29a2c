"""Cohort for Spack 1.0 and later, from the clone that this file lies in (docs/install.md)."""

import pathlib

from spack.package import depends_on, generator, license, variant, version
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Cohort(CMakePackage):
    """Data-parallel training over MPI that tolerates slow workers."""

    git = str(pathlib.Path(__file__).resolve().parents[6])

    license("Apache-2.0")

    version("main", branch="main", get_full_repo=True)

    variant("cuda", default=False, description="Compute on NVIDIA GPUs")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10:")
    depends_on("onednn@2.6:")
    depends_on("protobuf")
    depends_on("zlib-api")
    depends_on("libzip@1.7:")
    depends_on("utf8proc")
    depends_on("libpng")
    depends_on("jpeg")
    depends_on("cli11")
    depends_on("tomlplusplus")
    depends_on("nlohmann-json")
    depends_on("simdjson@3:")
    depends_on("spdlog")
    depends_on("fmt")
    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")

    def cmake_args(self):
        return [self.define("COHORT_BUILD_TESTS", False), self.define("COHORT_UNITY", True),
                self.define("COHORT_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF")]

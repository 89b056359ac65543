"""Prints, as make variables, how to compile against the torch that this Python imports."""

import sysconfig

import torch
from torch.utils import cpp_extension


def main() -> None:
    """Print the compiler's and the linker's flags."""
    includes = [f"-isystem {path}" for path in cpp_extension.include_paths()]
    includes.append(f"-isystem {sysconfig.get_paths()['include']}")
    # pybind11 shares types only between modules whose builds call themselves alike.
    build = {
        "PYBIND11_COMPILER_TYPE": getattr(torch._C, "_PYBIND11_COMPILER_TYPE", None),
        "PYBIND11_STDLIB": getattr(torch._C, "_PYBIND11_STDLIB", None),
        "PYBIND11_BUILD_ABI": getattr(torch._C, "_PYBIND11_BUILD_ABI", None),
    }
    defines = [f"'-D{name}=\"{value}\"'" for name, value in build.items() if value is not None]
    defines.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    libraries = [f"-L{path} -Wl,-rpath,{path}" for path in cpp_extension.library_paths()]
    libraries += ["-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10"]
    print("TORCH_CXXFLAGS :=", " ".join([*includes, *defines]))
    print("TORCH_LDFLAGS :=", " ".join(libraries))


if __name__ == "__main__":
    main()

// What Python sees: a factory for the backend, the versions, and the end.
#include "backend.h"

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include <array>

namespace py = pybind11;
using crossvendor::Backend;

PYBIND11_MODULE(_libucc, module) {
  py::module_::import("torch.distributed");  // registers the base classes

  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
      .def(py::init<const c10::intrusive_ptr<c10d::Store>&, int, int, std::chrono::milliseconds,
                    const std::string&>(),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
           py::arg("name") = "", py::call_guard<py::gil_scoped_release>())
      .def("allreduce_into", &Backend::allreduce_into, py::arg("output"), py::arg("input"),
           py::arg("options"), py::call_guard<py::gil_scoped_release>());

  // For tests: the numbers that ranks with these (process, context, is_final) take.
  module.def("distinct_contexts", [](const std::vector<std::array<int64_t, 3>>& identities) {
    std::vector<crossvendor::Identity> all;
    for (const auto& [process, context, is_final] : identities) {
      all.push_back({process, context, is_final});
    }
    std::vector<int64_t> numbers;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      numbers.push_back(crossvendor::distinct_context(all, static_cast<int>(rank)));
    }
    return numbers;
  });
  module.def("ucc_version", &crossvendor::ucc_version);
  module.def("ucx_version", &crossvendor::ucx_version);
  module.def("ucc_path", &crossvendor::ucc_path);
  module.def("ucx_path", &crossvendor::ucx_path);
  module.def("load", [] { crossvendor::Progress::shared(); },
             py::call_guard<py::gil_scoped_release>());
  module.def("shut_down", &crossvendor::Progress::shut_down,
             py::call_guard<py::gil_scoped_release>());
}

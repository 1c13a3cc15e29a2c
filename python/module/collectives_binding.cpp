#include "python/module/collectives_binding.hpp"

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/system/launch_env.hpp"
#include "python/module/arrays.hpp"
#include "python/module/collectives.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace cohort {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

/// One that lives on stays in memory: the process's end ends it.
struct DestroyCollectives {
    void operator()(Collectives* collectives) const {
        if (collectives->may_be_destroyed()) {
            delete collectives;  // NOLINT(cppcoreguidelines-owning-memory)
        }
    }
};

/// An array of bytes that keeps `bytes` in memory.
py::array array_of(Collectives::Bytes bytes) {
    auto kept = std::make_unique<Collectives::Bytes>(std::move(bytes));
    const auto* data = reinterpret_cast<const std::uint8_t*>(kept->data());
    const std::size_t size = kept->size();
    const py::capsule owner(kept.release(), [](void* memory) {
        delete static_cast<Collectives::Bytes*>(memory);  // NOLINT(cppcoreguidelines-owning-memory)
    });
    return make_array(size, data, owner);
}

void sum(Collectives& collectives, Array<float>& values) {
    const std::span<float> all(values.mutable_data(), static_cast<std::size_t>(values.size()));
    const py::gil_scoped_release released;
    collectives.sum(all);
}

py::list exchange(Collectives& collectives, const std::string& name,
                  const std::vector<std::pair<int, Array<std::uint8_t>>>& outgoing,
                  const std::vector<int>& from) {
    std::vector<Collectives::Outgoing> parts;
    for (const auto& [to, array] : outgoing) {
        parts.push_back({.to = to,
                         .bytes = std::as_bytes(
                             std::span(array.data(), static_cast<std::size_t>(array.size())))});
    }
    std::vector<Collectives::Bytes> received;
    {
        const py::gil_scoped_release released;
        received = collectives.exchange(name, parts, from);
    }
    py::list arrays;
    for (Collectives::Bytes& bytes : received) {
        arrays.append(array_of(std::move(bytes)));
    }
    return arrays;
}

py::dict launch_environment() {
    const LaunchEnv env = read_launch_env();
    return py::dict("launcher"_a = env.launcher, "rank"_a = env.world_rank,
                    "size"_a = env.world_size, "local_rank"_a = env.local_rank);
}

}  // namespace

void bind_collectives(py::module_& module) {
    using Unlocked = py::call_guard<py::gil_scoped_release>;
    py::class_<Collectives, std::unique_ptr<Collectives, DestroyCollectives>>(module, "Collectives")
        .def(py::init<double>(), "limit_s"_a, Unlocked())
        .def_property_readonly("rank", &Collectives::rank)
        .def_property_readonly("size", [](const Collectives& one) { return one.map().size(); })
        .def_property_readonly("nodes", [](const Collectives& one) { return one.map().nodes(); })
        .def_property_readonly(
            "host", [](const Collectives& one) { return one.map().ranks.front().host; },
            "host of rank 0")
        .def("sum", sum, py::arg("values").noconvert())
        .def("exchange", exchange, "name"_a, "outgoing"_a, "from_ranks"_a)
        .def_property_readonly("lost_any", &Collectives::lost_any)
        .def("finish", &Collectives::finish, Unlocked())
        .def("abort", &Collectives::abort, "code"_a, "reason"_a, Unlocked());
    module.def("launch_environment", launch_environment);
    module.def("check_one_world", [] { check_one_world(read_launch_env()); });
}

}  // namespace cohort

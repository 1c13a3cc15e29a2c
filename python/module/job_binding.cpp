#include "python/module/job_binding.hpp"

#include <pybind11/stl.h>
#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/world/mpi_end.hpp"
#include "data/hdf5/store.hpp"
#include "python/module/arrays.hpp"
#include "python/module/errors.hpp"
#include "python/module/job.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace cohort {
namespace {

using FloatArray = py::array_t<float, py::array::c_style | py::array::forcecast>;
/// Name and values.
using NamedArray = std::pair<std::string, FloatArray>;

/// Destroys a job. One whose threads run, and the copy in a process that was forked from its own,
/// stay in memory: the process's end ends them.
struct DestroyJob {
    pid_t process = ::getpid();

    void operator()(ProgramJob* job) const {
        if (process == ::getpid() && job->may_be_destroyed()) {
            delete job;  // NOLINT(cppcoreguidelines-owning-memory)
        }
    }
};

/// How long a wait goes on before signals are looked at.
constexpr Clock::Seconds kLook{0.1};

/// Memory of the job's; valid until Job.finish().
py::array view_of(std::span<float> values) {
    if (values.empty()) {
        return make_array<float>(0);
    }
    const py::capsule nobody(values.data(), [](void*) {});
    return make_array(values.size(), values.data(), nobody);
}

std::vector<NamedTensor> tensors_of(const std::vector<NamedArray>& arrays) {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, array] : arrays) {
        std::vector<std::int64_t> extents{1};
        if (array.ndim() > 0) {
            extents.assign(array.shape(), array.shape() + array.ndim());
        }
        tensors.push_back({.name = name,
                           .shape = Shape(extents),
                           .values = {array.data(), array.data() + array.size()}});
    }
    return tensors;
}

/// Where the tensors of a layout begin in its flat buffer.
std::vector<std::int64_t> offsets_of(const FlatLayout& layout) {
    std::vector<std::int64_t> offsets;
    for (const FlatRange& range : layout.ranges()) {
        offsets.push_back(range.offset);
    }
    return offsets;
}

/// (model, trains, ids, epoch), None when there are no more steps.
py::object next_step(ProgramJob& job) {
    const OfferedStep* step = nullptr;
    bool raised = false;
    {
        const py::gil_scoped_release released;
        while (step == nullptr && !raised && !job.exchange().closed()) {
            step = job.exchange().next(kLook);
            raised = step == nullptr && signal_raised();
        }
    }
    if (raised) {
        throw py::error_already_set();
    }
    if (step == nullptr) {
        return py::none();
    }
    return py::make_tuple(py::cast(step->model, py::return_value_policy::reference), step->trains,
                          make_array(step->ids.size(), step->ids.data()), step->epoch);
}

/// Parameters, then state, flat; empty where nothing was trained.
py::list final_tensors(const ProgramJob& job) {
    py::list tensors;
    if (const FinalValues& values = job.final_values()) {
        const float* flat = values->data();
        for (const FlatLayout* layout : {&job.graph().parameters(), &job.graph().state()}) {
            for (const FlatRange& range : layout->ranges()) {
                tensors.append(
                    make_array(static_cast<std::size_t>(range.size), flat + range.offset));
            }
            flat += layout->total();
        }
    }
    return tensors;
}

void start(ProgramJob& job, const std::string& name, const std::vector<NamedArray>& parameters,
           const std::vector<NamedArray>& state, const std::string& fixed,
           std::int64_t train_samples, std::int64_t test_samples,
           const std::vector<std::string>& arguments) {
    NetworkFacts network{.name = name,
                         .parameters = tensors_of(parameters),
                         .state = tensors_of(state),
                         .fixed = fixed,
                         .train_samples = train_samples,
                         .test_samples = test_samples};
    const py::gil_scoped_release released;
    job.start(std::move(network), arguments);
}

py::dict load_model(const std::string& file) {
    py::dict tensors;
    Hdf5Thread hdf5;
    const StoreReader reader(file, hdf5);
    for (const std::string& path : reader.names()) {
        for (const std::string_view group : {"/parameters/", "/state/"}) {
            if (path.starts_with(group)) {
                const std::vector<std::int64_t> shape = reader.shape(path);
                const std::vector<float> values = reader.get<float>(path);
                const py::array array = make_array(values.size(), values.data());
                tensors[path.substr(group.size()).c_str()] = array.attr("reshape")(shape);
            }
        }
    }
    return tensors;
}

}  // namespace

void bind_job(py::module_& module) {
    py::class_<OfferedModel, std::unique_ptr<OfferedModel, py::nodelete>>(module, "OfferedModel")
        .def_property_readonly("number", &OfferedModel::number)
        .def_property_readonly("parameters",
                               [](OfferedModel& model) { return view_of(model.parameters()); })
        .def_property_readonly("gradients",
                               [](OfferedModel& model) { return view_of(model.gradients()); })
        .def_property_readonly("state",
                               [](OfferedModel& model) { return view_of(model.live_state()); })
        .def_property_readonly(
            "parameter_offsets",
            [](const OfferedModel& model) { return offsets_of(model.graph().parameters()); })
        .def_property_readonly("state_offsets", [](const OfferedModel& model) {
            return offsets_of(model.graph().state());
        });
    using Unlocked = py::call_guard<py::gil_scoped_release>;
    py::class_<ProgramJob, std::unique_ptr<ProgramJob, DestroyJob>>(module, "Job")
        .def(py::init<const std::vector<std::string>&>(), "arguments"_a, Unlocked())
        .def_property_readonly("rank", [](const ProgramJob& job) { return job.world().rank(); })
        .def_property_readonly("size", [](const ProgramJob& job) { return job.world().size(); })
        .def_property_readonly(
            "is_worker",
            [](const ProgramJob& job) {
                const RankMap& map = job.world().map();
                return map.ranks[static_cast<std::size_t>(job.world().rank())].role ==
                       Role::kWorker;
            })
        .def_property_readonly("workers",
                               [](const ProgramJob& job) { return job.world().map().workers(); })
        .def_property_readonly("local_rank",
                               [](const ProgramJob& job) {
                                   return job.world().map().place_in_role(job.world().rank());
                               })
        .def_property_readonly("threads", &ProgramJob::threads)
        .def_property_readonly("stopped", &ProgramJob::stopped)
        .def("start", start)
        .def("next", next_step)
        .def(
            "announce",
            [](ProgramJob& job, std::int64_t begin, std::int64_t end) {
                job.exchange().announce(begin, end);
            },
            Unlocked())
        .def(
            "finish_step",
            [](ProgramJob& job, double loss_sum, double correct) {
                job.exchange().finish({.loss_sum = loss_sum, .correct = correct});
            },
            Unlocked())
        .def("request_stop", &ProgramJob::request_stop)
        .def("leave", [](ProgramJob& job) { job.exchange().leave(); })
        .def("finish", &ProgramJob::finish, Unlocked())
        .def("final_tensors", final_tensors)
        .def("abort", &ProgramJob::abort, "reason"_a, Unlocked());
    module.def("load_model", load_model, "file"_a);
    module.def("mpi_ended", mpi_ended);
}

}  // namespace cohort

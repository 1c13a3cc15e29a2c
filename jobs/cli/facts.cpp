#include "jobs/cli/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include "cohort/core/version.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/tensor/device.hpp"
#include "comm/base/mpi_baseline.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

namespace cohort {

std::vector<std::string> build_facts() {
    const CudaStatus cuda = cuda_status();
    const UsableGpus gpus = usable_gpus();
    const std::string& detail = gpus.reported > 0 ? gpus.detail : cuda.detail;
    return {
        fmt::format("cohort {}, revision {}, {} build by {}", version(), revision(), build_type(),
                    compiler()),
        fmt::format("oneDNN {}, HDF5 {}", dnnl_version_text(), hdf5_version_text()),
        fmt::format("MPI: {}", mpi_library_version()),
        fmt::format("CUDA: {}, {}{}{}", cuda.compiled ? "built in" : "not built in",
                    counted(gpus.count, "GPU"), detail.empty() ? "" : ": ", detail),
    };
}

std::vector<std::string> machine_facts(const LaunchEnv& env) {
    return {
        fmt::format("rank {} of {} on {} (rank {} there), {}, launcher {}, CPU kernels for {}",
                    env.world_rank, env.world_size, env.host, env.local_rank,
                    counted(env.cores, "core"), env.launcher, cpu_isa()),
    };
}

std::string model_facts(const Graph& graph) {
    const auto parameters = static_cast<std::uint64_t>(graph.parameters().elements());
    return fmt::format(
        "model {}: input {}, {}, {} parameters ({}), {:.2f} MFLOP per sample forward, "
        "{:.2f} in training",
        graph.name(), to_string(graph.input_shape()),
        graph.loss() == LossKind::kMeanSquaredError ? counted(graph.classes(), "target")
                                                    : counted(graph.classes(), "class", "classes"),
        format_count(parameters), format_bytes(4 * parameters),
        graph.forward_flops_per_sample() * 1e-6, graph.training_flops_per_sample() * 1e-6);
}

/// What a set may have and rarely means.
std::string doubts_of(const SampleSetInfo& info) {
    constexpr std::int64_t kMostChannels = 4;
    std::string doubts;
    const auto below_one = [](const std::vector<float>& values) {
        return std::ranges::all_of(values, [](float value) { return value > 0 && value < 1; });
    };
    if (info.type == SampleType::kU8 && below_one(info.mean) && below_one(info.std)) {
        doubts +=
            "; mean and std look like those of pixels from 0 to 1, stored pixels go to 255: "
            "multiply both by 255";
    }
    const std::vector<std::int64_t>& shape = info.sample_shape;
    if (shape.size() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == kMostChannels) &&
        std::min(shape[0], shape[1]) > kMostChannels) {
        doubts += "; samples look like [H,W,C] and are taken as [C,H,W]";
    }
    constexpr std::uint64_t kMostChunk = std::uint64_t{32} << 20;  // the window of a shuffle
    const std::uint64_t chunk =
        static_cast<std::uint64_t>(info.chunk_samples) * info.sample_bytes();
    if (chunk > kMostChunk) {
        doubts += fmt::format(
            "; chunks of {}, where about 1 MiB is usual: a worker reads a whole one for its first "
            "sample and holds two of them, {}",
            format_bytes(chunk), format_bytes(2 * chunk));
    }
    return doubts;
}

namespace {

/// "10 classes", "28,782 tokens in the vocabulary", "3 targets", "1 target of mean 12.3 and
/// deviation 4.5"
std::string label_facts(const SampleSetInfo& info) {
    switch (info.task()) {
        case Task::kClassification: break;
        case Task::kLanguage: return fmt::format("{} tokens in the vocabulary", info.classes);
        case Task::kRegression:
            return info.targets > 1 ? fmt::format("{} targets", info.targets)
                                    : fmt::format("1 target of mean {:.6g} and deviation {:.6g}",
                                                  info.target_mean[0], info.target_std[0]);
    }
    return fmt::format("{} classes", info.classes);
}

/// Adds the cores of a list like "0-3,8".
void add_cores(std::set<int>& cores, const std::string& list) {
    std::istringstream text(list);
    int first = 0;
    while (text >> first) {
        int last = first;
        if (text.peek() == '-') {
            text.ignore() >> last;
        }
        for (int core = first; core <= last; ++core) {
            cores.insert(core);
        }
        text.ignore();  // the comma
    }
}

}  // namespace

std::string dataset_facts(const std::string& group, const SampleSetInfo& info) {
    const std::string_view type = info.type == SampleType::kU8    ? "u8"
                                  : info.type == SampleType::kF32 ? "f32"
                                                                  : word_of(info.type);
    return fmt::format("data {}: {} samples {} {}, {}, chunks of {}, {}{}{}{}", group,
                       format_count(static_cast<std::uint64_t>(info.samples)),
                       format_shape(info.sample_shape), type, label_facts(info), info.chunk_samples,
                       info.source.empty() ? "" : "from ", info.source,
                       info.checked ? "" : "; without checksums: first reads are unverified",
                       doubts_of(info));
}

std::string gradients_fact(const WorkerReport& all) {
    return fmt::format(
        "gradients: {} applied ({} discounted, {} over the lag bound), {} refused; lag {:.2f} on "
        "average, {:.2f} at most, in reference batches",
        all.pushes, all.discounted, all.over_bound,
        std::accumulate(all.refused.begin(), all.refused.end(), std::int64_t{0}),
        all.lag_sum / static_cast<double>(all.pushes), all.lag_max);
}

std::string binding_advice(const LaunchEnv& env, const RankMap& map) {
    if (env.launcher != "mpirun" || env.by_script || env.cores >= env.launcher_cores) {
        return "";
    }
    const std::vector<int> here = map.on_node(map.ranks.front().node);
    std::set<int> cores;
    for (const int rank : here) {
        add_cores(cores, map.ranks[static_cast<std::size_t>(rank)].cores);
    }
    return cores.size() >= here.size()
               ? ""
               : fmt::format(
                     "{} of this host share {} of {}, to which mpirun binds them: add --bind-to "
                     "none to its options (jobs/launch.sh does)",
                     counted(here.size(), "rank"), counted(cores.size(), "core"),
                     env.launcher_cores);
}

void log_header(const CommandContext& context, const std::vector<std::string>& facts) {
    for (const auto& lines : {build_facts(), machine_facts(context.env), facts}) {
        for (const std::string& line : lines) {
            log_info("{}", line);
        }
    }
    log_info("options that differ from their defaults (all: --dump-config):");
    for (const EffectiveOption& option : context.options) {
        if (!option.value.empty() && option.origin != "default") {
            log_info("  {} = {}  ({})", option.name, option.value, option.origin);
        }
    }
}

}  // namespace cohort

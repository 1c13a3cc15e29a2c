#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cohort/core/version.hpp"
#include "cohort/sched/job_limits.hpp"
#include "core/tensor/option_list.hpp"
#include "core/units.hpp"
#include "data/file/text_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "train/bench/profile_measure.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kMostProfileCount = 1'000'000;

void print_fit(const char* what, const std::vector<CostPoint>& points, const CostFit& line,
               const char* unit) {
    print_line("{:<24} {:>14} {:>14} {:>14}", what, unit, "measured us", "fitted us");
    for (const CostPoint& point : points) {
        print_line("{:<24} {:>14.0f} {:>14.1f} {:>14.1f}", "", point.units, 1e6 * point.seconds,
                   1e6 * (line.fixed_s + line.per_unit_s * point.units));
    }
}

class ProfileCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        value(app, "--model", options_.model, "Network, or FILE.onnx")->type_name("NAME");
        app.add_option("--data", options_.data,
                       "Dataset file (HDF5) whose samples to use; without it, synthetic ones")
            ->type_name("FILE");
        value(app, "--input", options_.input,
              "Shape of synthetic samples: CxHxW or F, of text the tokens; empty: 1x28x28, or 35")
            ->type_name("SHAPE");
        value(app, "--classes", options_.classes,
              "Classes of synthetic samples, of text its vocabulary; 0: 10, or 28,782",
              {.least = 0, .most = kMostProfileCount});
        value(app, "--batch", options_.batch,
              "Samples per step and worker; a quarter, half and twice as many are measured too",
              kBatchLimits);
        value(app, "--augment", options_.augment, "As in training: none, or pad-crop:PIXELS,flip")
            ->type_name("LIST");
        const DeclareOptions declared{app};
        declared({"--optimizer", "Of the servers"}, options_.optimizer);
        each_device_option(options_, declared, "What a worker computes on");
        value(app, "--threads", options_.threads, "A worker's threads that compute, on the CPU",
              kSomeThreadsLimits);
        value(app, "--loader-threads", options_.loader_threads,
              "A worker's threads that prepare input", kSomeThreadsLimits);
        value(app, "--repetitions", options_.repetitions, "Of each measurement; medians count",
              {.least = ProfileMeasureOptions::kLeastRepetitions, .most = kMostProfileCount});
        value(app, "--like", like_,
              "Profile, by name or file, that gives what is not measured; a file's other models "
              "are kept")
            ->type_name("PROFILE");
        value(app, "--workers-per-node", workers_per_node_, "Workers that a node has room for",
              kSomeThreadsLimits);
        app.add_flag("--loopback-network", loopback_,
                     "Under mpirun on one host: take its messages for those between nodes too");
        value(app, "--name", name_, "Name of the profile")->type_name("NAME");
        out_.declare(app, "--out",
                     "Profile to write (TOML, see docs/profiles.md); without it, it is printed");
    }

    ExitCode run(const CommandContext& context) override {
        check_one_world(context.env);
        std::optional<OutputFile> file;
        if (out_.given() && context.env.world_rank == 0) {
            file = out_.check(context, {options_.data, like_});
        }
        ClusterProfile profile = load_profile(like_);
        if (context.env.world_size > 1) {
            const MeasuredExchange exchange = measure_exchange(options_.repetitions);
            if (exchange.rank != 0) {
                return ExitCode::kDone;
            }
            use(exchange, profile);
        }
        options_.tuning_file = tuning_file(context.env);
        const MeasuredProfile measured = measure_profile(options_);
        use(measured, context, profile);
        print(measured);
        if (!file) {
            std::fputs(to_toml(profile).c_str(), stdout);
        } else {
            replace_text_file(*file, to_toml(profile));
            print_line("written to {}", out_.path());
        }
        return ExitCode::kDone;
    }

private:
    void use(const MeasuredExchange& exchange, ClusterProfile& profile) const {
        if (exchange.same_host) {
            profile.local_bytes_per_s = exchange.bytes_per_s;
        }
        if (!exchange.same_host || loopback_) {
            profile.nic_bytes_per_s = exchange.bytes_per_s;
            profile.latency_s = exchange.latency_s;
        }
        print_line("messages between two ranks of {}: latency {:.1f} us, {}/s",
                   exchange.same_host ? "this host" : "two hosts", 1e6 * exchange.latency_s,
                   format_bytes(static_cast<std::uint64_t>(exchange.bytes_per_s)));
    }

    void use(const MeasuredProfile& measured, const CommandContext& context,
             ClusterProfile& profile) const {
        const std::vector<std::string> shipped = shipped_profiles();
        if (std::find(shipped.begin(), shipped.end(), like_) != shipped.end()) {
            profile.workloads.clear();  // of other devices
        }
        profile.name = name_;
        profile.source =
            fmt::format("cohort profile {} on {}; what it does not measure is that of {}",
                        revision(), context.env.host, like_);
        profile.devices_per_node = workers_per_node_;
        profile.cores = context.env.cores;
        profile.memory_bytes_per_s = measured.memory_bytes_per_s;
        profile.update_s = measured.update_s;
        if (measured.on_cpu) {
            profile.device_memory_bytes_per_s = 0;  // the processors update
        }
        profile.workloads[measured.workload.name] = measured.workload;
    }

    static void print(const MeasuredProfile& measured) {
        const Workload& workload = measured.workload;
        print_fit("forward and backward", measured.device,
                  {workload.device_s, workload.device_s_per_sample}, "samples");
        print_fit("input, core time", measured.input, {workload.cpu_s, workload.cpu_s_per_sample},
                  "samples");
        print_fit("update of a server", measured.updates,
                  {measured.update_s, 1 / measured.memory_bytes_per_s}, "bytes");
        print_line(
            "{}: {:.1f} us and {:.3f} us per sample on the device, {:.0f} % of it backward; input "
            "{:.1f} us and {:.3f} us per sample; {} of parameters; a server touches {}/s and "
            "takes {:.1f} us per update",
            workload.name, 1e6 * workload.device_s, 1e6 * workload.device_s_per_sample,
            100 * workload.backward_share, 1e6 * workload.cpu_s, 1e6 * workload.cpu_s_per_sample,
            format_bytes(static_cast<std::uint64_t>(workload.parameter_bytes)),
            format_bytes(static_cast<std::uint64_t>(measured.memory_bytes_per_s)),
            1e6 * measured.update_s);
    }

    ProfileMeasureOptions options_;
    std::string like_ = "8gpu-10g";
    std::string name_ = "measured";
    OutputOption out_;
    int workers_per_node_ = 1;
    bool loopback_ = false;
};

}  // namespace

void add_profile_command(const CommandGroup& all) {
    all.add<ProfileCommand>("profile",
                            "Measure what a model costs on this machine, for simulations");
}

}  // namespace cohort

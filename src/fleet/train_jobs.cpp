#include "fleet/train_jobs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/tensor/device.hpp"
#include "sim/scenario/option_list.hpp"
#include "train/faults/injection.hpp"
#include "train/run/option_list.hpp"

namespace cohort {
namespace {

/// Options of `cohort train` that a fleet decides, and how.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOfTheFleet{
    {{"resume", "cohort fleet --resume"},
     {"record-trace", "cohort train for a recording"},
     {"record-load", "cohort train for a recording"},
     {"epochs", "samples"}}};

/// A key of [real] that is the fleet's.
constexpr std::string_view kCard = "card";

template <class Options>
std::vector<std::pair<std::string, std::string>> listed(const Options& options) {
    std::vector<std::pair<std::string, std::string>> values;
    each_option(options, ListValues{values});
    return values;
}

[[noreturn]] void refuse_real(const RealOption& option, std::string_view what,
                              std::string_view expected, std::string_view got) {
    fail<UsageError>({.where = option.place, .what = what, .expected = expected, .got = got});
}

void set_real_options(const FleetPlan& plan, TrainOptions& options) {
    const auto of_all = listed(SimulateOptions());
    for (const RealOption& option : plan.real) {
        if (option.key == kCard) {
            continue;
        }
        for (const auto& [name, instead] : kOfTheFleet) {
            if (option.key == name) {
                refuse_real(option, "not an option of a job of a fleet", instead, option.key);
            }
        }
        if (std::ranges::find(of_all, option.key, &std::pair<std::string, std::string>::first) !=
            of_all.end()) {
            refuse_real(option, "an option of virtual jobs too", "[defaults] or the job",
                        option.key);
        }
        bool known = false;
        std::string expected;
        each_option(
            options,
            SetOption{
                .name = option.key, .text = option.text, .known = known, .expected = expected});
        if (!known) {
            refuse_real(option, "not an option of real jobs",
                        "an option of cohort train that cohort simulate has not", option.key);
        }
        if (option.key == "device" && !is_device_name(option.text)) {
            expected = "auto, cpu, cuda or cuda:INDEX";
        }
        if (!expected.empty()) {
            refuse_real(option, "the value cannot be used", expected, option.text);
        }
    }
}

/// "sleep:T": what the profile's workload computes for a mini-batch.
std::string sleep_of(const ClusterProfile& profile, const SimulateOptions& job) {
    const Workload& work = profile.workload(job.time_as.empty() ? job.model : job.time_as);
    const auto batch = static_cast<double>(job.batch);
    return fmt::format("sleep:{:.9f}s",
                       work.device_s + batch * work.device_s_per_sample +
                           (work.cpu_s + batch * work.cpu_s_per_sample) / work.cpu_threads);
}

}  // namespace

void check_real_options(const FleetPlan& plan) {
    TrainOptions options;
    set_real_options(plan, options);
    (void)card_of(plan);
}

double card_of(const FleetPlan& plan) {
    const auto given = std::ranges::find(plan.real, kCard, &RealOption::key);
    if (given == plan.real.end()) {
        return 0;
    }
    const std::optional<double> rate = parse_rate(given->text);
    if (!rate) {
        refuse_real(*given, "not a rate", "a number above 0 with kB/s, MB/s or GB/s", given->text);
    }
    return *rate;
}

int ranks_of(const FleetJob& job, const TrainOptions& options) {
    return job.options.workers + server_ranks(options);
}

std::vector<TrainOptions> train_jobs(const FleetPlan& plan, const std::string& out,
                                     bool overwrite) {
    const ClusterProfile profile = load_profile(plan.profile);
    std::vector<TrainOptions> jobs;
    for (const FleetJob& job : plan.jobs) {
        TrainOptions options;
        static_cast<JobOptions&>(options) = job.options;
        static_cast<ModeOptions&>(options) = job.options;
        static_cast<ChooserOptions&>(options) = job.options;
        static_cast<LearningOptions&>(options) = job.options;
        options.out = out + "/" + job.name;
        options.overwrite = overwrite;
        if (job.options.no_train) {
            options.compute = sleep_of(profile, job.options);
        }
        set_real_options(plan, options);
        const int ranks = ranks_of(job, options);
        try {
            jobs.push_back(checked(std::move(options), ranks));
        } catch (const UsageError& error) {
            throw UsageError(fmt::format("[{}] {}", job.place, error.what()));
        }
    }
    return jobs;
}

std::string without_effect(const FleetPlan& plan) {
    const SimulateOptions usual;
    std::vector<std::string_view> found{"[cluster]"};
    if (std::ranges::any_of(
            plan.settings, [](const auto& one) { return one.first == "fleet.server-placement"; })) {
        found.emplace_back("server-placement");
    }
    if (plan.make_room != RoomRule::kOff && card_of(plan) == 0) {
        found.emplace_back("make-room (no card in [real])");
    }
    const auto add = [&](std::string_view name, const auto& given) {
        if (std::ranges::any_of(plan.jobs, given, &FleetJob::options)) {
            found.push_back(name);
        }
    };
    using Options = const SimulateOptions&;
    // A job of time only sleeps as long as the workload takes.
    add("time-as", [](Options o) { return !o.time_as.empty() && !o.no_train; });
    add("eval-samples", [&](Options o) { return o.eval_samples != usual.eval_samples; });
    add("eval-average", [&](Options o) { return o.eval_average != usual.eval_average; });
    add("target-on", [&](Options o) { return o.target_on != usual.target_on; });
    add("measure-gradients", [](Options o) { return o.measure_gradients; });
    return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace cohort

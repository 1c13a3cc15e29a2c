#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "cohort/sched/job_limits.hpp"
#include "cohort/sched/modes.hpp"
#include "jobs/cli/command_line.hpp"
#include "jobs/cli/option_value.hpp"

namespace cohort {

// Options that mean the same wherever a job is described, real or virtual. Each fills the field of
// its name.

inline void declare_arch(CLI::App& app, std::string& arch) {
    value(app, "--arch", arch, "How gradients travel")->check(CLI::IsMember({"servers", "ring"}));
}

/// @param more  goes behind the names of the modes
template <class Options>
void declare_modes(CLI::App& app, Options& o, const std::string& more = "") {
    value(app, "--mode", o.mode,
          "Who waits for whom (docs/modes.md), with @SCALE at that share of --lr: \"asgd@0.5\"; "
          "servers: " +
              CLI::detail::join(mode_names(Architecture::kServers), ", ") +
              "; ring: " + CLI::detail::join(mode_names(Architecture::kRing), ", ") +
              "; empty: the first of each" + more)
        ->type_name("MODE");
    value(app, "--stale-momentum", o.stale_momentum,
          "What workers get whose gradients come late (servers): the parameters of after their "
          "lag, or plain ones")
        ->check(CLI::IsMember({"look-ahead", "keep"}));
    value(app, "--mode-schedule", o.mode_schedule,
          "Modes by samples applied, in place of --mode: \"0:ssgd,20000:static:6@0.5\"")
        ->type_name("LIST");
    value(app, "--lr-rule", o.lr_rule,
          "What an update of f reference batches is worth: f (per-sample), what the mode's "
          "publication says (published), or the gain of AdaScale (adascale)")
        ->check(CLI::IsMember({"per-sample", "published", "adascale"}));
    value(app, "--noise-scale", o.noise_scale,
          "Gradient noise scale for adascale, in samples; 0: measured as training goes",
          kNoiseScaleLimits);
}

/// @param what  computes on it
inline void declare_device(CLI::App& app, std::string& device, const std::string& what) {
    value(app, "--device", device,
          what +
              ": cpu, cuda (the workers of a host go round its GPUs), cuda:INDEX; auto: cuda "
              "where there is a usable GPU, else cpu")
        ->type_name("DEVICE");
}

/// Where choices among a GPU's algorithms are remembered; empty: nowhere.
[[nodiscard]] inline std::string tuning_file(const LaunchEnv& env) {
    return env.cache_folder.empty() ? "" : env.cache_folder + "/algorithms.txt";
}

inline void declare_precision(CLI::App& app, std::string& precision) {
    value(app, "--precision", precision,
          "Of activations and products on a GPU (docs/cuda.md); the CPU has f32 alone")
        ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}));
}

/// How choosers form their opinion. @param predictors  names of `--predictor`
template <class Options>
void declare_choosers(CLI::App& app, Options& o, const std::vector<std::string>& predictors) {
    value(app, "--predictor", o.predictor,
          "Choosers (docs/choosers.md): where workers' times to come are taken from; auto: from "
          "the best of them so far")
        ->check(CLI::IsMember(predictors));
    value(app, "--predictor-file", o.predictor_file,
          "Model of cohort predictor train for lstm and auto; empty: the shipped one")
        ->type_name("FILE");
    value(app, "--efficiency", o.efficiency,
          "Choosers: what stale gradients cost, by a model or a rule of thumb")
        ->check(CLI::IsMember({"model", "prior"}));
    value(app, "--efficiency-file", o.efficiency_file,
          "Coefficients of cohort efficiency train for model; empty: the shipped ones")
        ->type_name("FILE");
    value(
        app, "--chooser-file", o.chooser_file,
        "Weights of cohort chooser train that star-ml begins with; empty: the shipped ones; none: "
        "those that trust the timing model")
        ->type_name("FILE");
}

template <class Options>
void declare_rate(CLI::App& app, Options& o) {
    value(app, "--batch", o.batch, "Samples per step and worker", kBatchLimits);
    value(app, "--lr", o.lr, "Learning rate at the start of the schedule", kLearningRateLimits);
    value(app, "--lr-schedule", o.lr_schedule,
          "constant | step:FACTOR@N1,N2,.. | step:FACTOR@every:N | cosine:FLOOR[@N]; counts in "
          "samples, FLOOR a share of --lr")
        ->type_name("SCHEDULE");
}

template <class Options>
void declare_update_rule(CLI::App& app, Options& o) {
    value(app, "--optimizer", o.optimizer, "Update rule")->check(CLI::IsMember({"sgd", "adamw"}));
    value(app, "--momentum", o.momentum, "Momentum of sgd", kMomentumLimits);
}

template <class Options>
void declare_weight_decay(CLI::App& app, Options& o) {
    value(app, "--weight-decay", o.weight_decay,
          "Weight decay, not on biases and batch norms (adamw: decoupled)", kWeightDecayLimits);
}

template <class Options>
void declare_target(CLI::App& app, Options& o) {
    value(app, "--target-accuracy", o.target_accuracy,
          "End once the test accuracy reaches this; 0: never", kTargetLimits);
}

/// What the optimizer would not read must not seem to count. @param standard --momentum's default
/// Errors: UsageError.
void check_momentum(const CommandContext& context, const std::string& optimizer, double momentum,
                    double standard);

}  // namespace cohort

#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/sched/job_limits.hpp"
#include "cohort/sched/job_options.hpp"
#include "cohort/sched/mode_options.hpp"
#include "core/options.hpp"

// The lists of the options that sched reads, see core/options.hpp.
namespace cohort {

/// @param more  goes behind the names of the modes
template <class Options, class Visit>
void each_mode_option(Options& o, const Visit& visit, std::string_view more = "") {
    const auto names = [](Architecture arch) {
        return fmt::format("{}", fmt::join(mode_names(arch), ", "));
    };
    visit({"--arch", "How gradients travel"}, o.arch);
    visit({"--mode",
           fmt::format("Who waits for whom (docs/modes.md), with @SCALE at that share of --lr: "
                       "\"asgd@0.5\"; servers: {}; ring: {}; empty: the first of each{}",
                       names(Architecture::kServers), names(Architecture::kRing), more),
           "MODE"},
          o.mode);
    visit({"--stale-momentum",
           "What workers get whose gradients come late (servers): the parameters of after their "
           "lag, or plain ones"},
          o.stale_momentum);
    visit({"--mode-schedule",
           "Modes by samples applied, in place of --mode: \"0:ssgd,20000:static:6@0.5\"", "LIST"},
          o.mode_schedule);
    visit({"--lr-rule",
           "What an update of f reference batches is worth: f (per-sample), what the mode's "
           "publication says (published), or the gain of AdaScale (adascale)"},
          o.lr_rule);
    visit({"--noise-scale",
           "Gradient noise scale for adascale, in samples; 0: measured as training goes"},
          o.noise_scale, kNoiseScaleLimits);
}

template <class Options, class Visit>
void each_shard_option(Options& o, const Visit& visit) {
    visit({"--shards",
           "Servers: how the parameters are divided among them at the start: equal parts, or as "
           "fast as their nodes are (docs/servers.md)"},
          o.shards);
    visit({"--rebalance-servers",
           "Servers: whether parts of the parameters move between them while the job runs, when a "
           "server's network card or processor lags"},
          o.rebalance_servers);
}

template <class Options, class Visit>
void each_wire_option(Options& o, const Visit& visit) {
    visit(
        {"--wire",
         "Type in which gradients and parameters travel between ranks; bf16 halves the bytes, what "
         "is rounded away is sent with the next gradient (docs/servers.md)"},
        o.wire);
}

/// @param predictors  that `--predictor` may name
template <class Options, class Visit>
void each_chooser_option(Options& o, const Visit& visit, std::vector<std::string> predictors) {
    visit({"--predictor",
           "Choosers (docs/choosers.md): where workers' times to come are taken from; auto: from "
           "the best of them so far",
           nullptr, std::move(predictors)},
          o.predictor);
    visit({"--predictor-file",
           "Model of cohort predictor train for lstm and auto; empty: the shipped one", "FILE"},
          o.predictor_file);
    visit({"--chooser-file",
           "Weights of cohort chooser train that star-ml begins with; empty: the shipped ones; "
           "none: those that trust the timing model",
           "FILE"},
          o.chooser_file);
}

}  // namespace cohort

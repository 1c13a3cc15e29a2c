#pragma once

#include "cohort/optim/learning_options.hpp"
#include "core/options.hpp"

// The list of LearningOptions in its parts, between which programs have options of their own, see
// core/options.hpp.
namespace cohort {

template <class Options, class Visit>
void each_rate_option(Options& o, const Visit& visit) {
    visit({"--lr", "Learning rate at the start of the schedule"}, o.lr, kLearningRateLimits);
    visit({"--lr-schedule",
           "constant | step:FACTOR@N1,N2,.. | step:FACTOR@every:N | cosine:FLOOR[@N]; counts in "
           "samples, FLOOR a share of --lr",
           "SCHEDULE"},
          o.lr_schedule);
}

template <class Options, class Visit>
void each_optimizer_option(Options& o, const Visit& visit) {
    visit({"--optimizer", "Update rule"}, o.optimizer);
    visit({"--momentum", "Momentum of sgd"}, o.momentum, kMomentumLimits);
}

template <class Options, class Visit>
void each_decay_option(Options& o, const Visit& visit) {
    visit({"--weight-decay", "Weight decay, not on biases and batch norms (adamw: decoupled)"},
          o.weight_decay, kWeightDecayLimits);
}

}  // namespace cohort

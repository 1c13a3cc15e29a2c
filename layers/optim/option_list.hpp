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
void each_step_option(Options& o, const Visit& visit) {
    visit({"--weight-decay", "Weight decay, not on biases and batch norms (adamw: decoupled)"},
          o.weight_decay, kWeightDecayLimits);
    visit({"--beta1", "Decay of adamw's mean gradient"}, o.beta1, kBetaLimits);
    visit({"--beta2", "Decay of adamw's mean squared gradient"}, o.beta2, kBetaLimits);
    visit({"--epsilon", "What adamw adds to the root of the mean squared gradient"}, o.epsilon,
          kEpsilonLimits);
    visit({"--clip-norm",
           "Gradients with a larger Euclidean norm are scaled to it; 0: none. Servers: each "
           "worker's gradient, ring: the mean, local steps: each step's (docs/servers.md)"},
          o.clip_norm, kClipNormLimits);
}

}  // namespace cohort

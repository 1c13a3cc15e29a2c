#pragma once

#include "cohort/sched/active_iterations.hpp"
#include "cohort/sched/predictor.hpp"
#include "cohort/sched/stragglers.hpp"
#include "cohort/sched/telemetry.hpp"

namespace cohort {

/// What was measured of gradients; 0: not known.
struct GradientFacts {
    double noise_scale = 0;  ///< phi, samples
    double curvature = 0;    ///< along the step, times learning rate / (1 - momentum)
    double agreement = 0;    ///< of mean gradients a reference batch apart: <G, G'> / |G|^2
    double loss = 0;         ///< of training, nats, smoothed
};

/// What those who choose modes look at, besides Telemetry's counts. Valid until the
/// load monitor is told of something again.
struct LoadView {
    const TelemetryHistory* history = nullptr;
    const StragglerDetector* stragglers = nullptr;
    const ActiveIterations* running = nullptr;  ///< null: nobody says who is at one
    Forecast forecast;  ///< empty while the mode in charge looks at none, see ModePolicy
    GradientFacts gradients;
};

}  // namespace cohort

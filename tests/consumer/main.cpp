// Trains a tiny network of its own on made-up samples, with nothing but the installed library.

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

#include "cohort/comm/world.hpp"
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/recorded/profile.hpp"
#include "cohort/report/comparison.hpp"
#include "cohort/tensor/device.hpp"

namespace {

constexpr std::int64_t kSamples = 8;
constexpr std::int64_t kFeatures = 4;

cohort::Graph tiny_network() {
    cohort::GraphBuilder net("tiny", cohort::Shape{kFeatures});
    const cohort::Value hidden = net.relu(net.linear(net.input(), {.features = 16}));
    return net.finish(net.linear(hidden, {.features = 2}));
}

/// Mean loss before and after training on samples whose class is the sign of their first feature.
std::array<double, 2> train() {
    std::array<float, kSamples * kFeatures> samples{};
    std::array<std::int32_t, kSamples> labels{};
    for (std::size_t i = 0; i < kSamples; ++i) {
        labels[i] = static_cast<std::int32_t>(i % 2);
        samples[i * kFeatures] = labels[i] == 0 ? -1.0F : 1.0F;
        samples[i * kFeatures + 1] = static_cast<float>(i) / kSamples;
    }
    const cohort::BatchView batch{
        .samples = samples.data(), .labels = labels.data(), .size = kSamples};

    const std::unique_ptr<cohort::Device> device = cohort::make_cpu_device(1);
    cohort::Replica replica(tiny_network(), *device);
    replica.initialise(1);
    const auto optimizer =
        cohort::make_optimizer({}, replica.graph().parameters(), 0,
                               replica.graph().parameters().total(), *device, replica.stream());
    const double before = replica.evaluate(batch).loss_sum / kSamples;
    for (int step = 0; step < 50; ++step) {
        replica.train_step(batch);
        optimizer->update(replica.parameters(), replica.gradients(), 1.0, 0.05);
    }
    return {before, replica.evaluate(batch).loss_sum / kSamples};
}

/// The storage side is linked as well: a missing file gives the documented error.
bool missing_file_is_reported() {
    cohort::Hdf5Thread thread;
    try {
        (void)cohort::open_dataset("missing.h5", "train", thread);
    } catch (const cohort::FileError&) {
        return true;
    }
    return false;
}

/// A shipped profile, and a number of the report's: the virtual cluster is linked as well.
bool simulates_and_compares() {
    return !cohort::load_profile("8gpu-10g").workloads.empty() &&
           cohort::spread_of({3, 1, 2}).median == 2;
}

/// A world of this process alone.
bool is_a_world() {
    cohort::World world({.alone = true});
    const bool alone = world.size() == 1;
    world.finalize();
    return alone;
}

}  // namespace

int main() {
    try {
        const auto [before, after] = train();
        std::printf("loss %.4f -> %.4f\n", before, after);
        return after < 0.5 * before && missing_file_is_reported() && simulates_and_compares() &&
                       is_a_world()
                   ? 0
                   : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

// How much a GPU is asked to do for a training step of a small network, where every launch and
// every wait counts: with the CPU in a GPU's place, which counts them.
#include <gtest/gtest.h>

#include <vector>

#include "cohort/core/rng.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/optim/learning_options.hpp"
#include "cohort/optim/optimizer.hpp"
#include "support/gpu/cuda_on_cpu.hpp"

namespace cohort {
namespace {

TEST(StepWork, OfResNet20) {
    const auto device = make_cuda_device(0);
    Replica replica(make_model("resnet20", Shape{3, 32, 32}, 10), *device, {.deterministic = true});
    replica.initialise(1);
    const FlatLayout& layout = replica.graph().parameters();
    const auto optimizer = make_optimizer({.momentum = 0.9, .weight_decay = 5e-4}, layout, 0,
                                          layout.total(), *device, replica.stream());
    std::vector<float> samples(static_cast<std::size_t>(replica.graph().input_shape().elements()));
    Rng rng(1, RngPurpose::kTest);
    for (float& value : samples) {
        value = rng.next_normal();
    }
    const std::int32_t label = 3;
    for (int step = 0; step < 2; ++step) {  // queued kernel by kernel, then recorded
        const on_cpu::Asked before = on_cpu::asked;
        replica.train_step({.samples = samples.data(), .labels = &label, .size = 1}, 1);
        optimizer->update(replica.parameters(), replica.gradients(), 1, 1e-3);
        replica.fold_batch_statistics(kBatchNormMomentum, 1);
        EXPECT_EQ(on_cpu::asked.work - before.work, 180U) << step;
        EXPECT_EQ(on_cpu::asked.waits - before.waits, 1U) << "for the loss";
        // Copies of sample, label and step values come before, the loss, the update and the
        // statistics after.
        EXPECT_EQ(replica.recorded_work(), step == 0 ? 0 : 174U);
    }
}

}  // namespace
}  // namespace cohort

// Where a replica's input comes from on every backend: samples as they are stored, and batches
// copied ahead of their steps.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/gpu/gpu_backend.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

class Input : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override { need(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Backends, Input, ::testing::ValuesIn(all_backends()), backend_name);

Twin network() {
    TwinBuilder net(Shape{3, 8, 7});
    Value x = net.relu(
        net.batch_norm(net.conv(net.input(), {.channels = 8, .padding = 1, .bias = false})));
    x = net.dropout(net.pool(x, PoolKind::kAverage, {3, 2, 1}), 0.25F);
    return net.finish(net.linear(net.flatten(x), {.features = 5}));
}

/// Copies a batch ahead while the step before computes.
class Prefetcher final : public StepObserver {
public:
    Prefetcher(Replica& replica, BatchView next) : replica_(replica), next_(std::move(next)) {}
    void begun() override { replica_.prefetch(next_); }

private:
    Replica& replica_;
    BatchView next_;
};

/// Stored samples of the network, and what the CPU makes of them.
struct StoredBatch {
    explicit StoredBatch(const OwnedBatch& like) : batch(like), size(like.view().size) {
        const auto each = static_cast<std::size_t>(kChannels * kHeight * kWidth);
        for (std::size_t i = 0; i < each * static_cast<std::size_t>(size); ++i) {
            values.push_back(static_cast<std::uint8_t>(i * i * 31 % 251));
        }
        for (std::int64_t n = 0; n < size; ++n) {
            crops.push_back({.down = static_cast<std::int16_t>(n % 5 - 2),
                             .right = static_cast<std::int16_t>(n % 3 - 1),
                             .mirrored = static_cast<std::int16_t>(n % 2)});
        }
        for (std::int64_t n = 0; n < size; ++n) {
            for (std::int64_t c = 0; c < kChannels; ++c) {
                for (std::int64_t y = 0; y < kHeight; ++y) {
                    for (std::int64_t x = 0; x < kWidth; ++x) {
                        normalised.push_back(value(n, c, y, x));
                    }
                }
            }
        }
    }
    [[nodiscard]] float value(std::int64_t n, std::int64_t c, std::int64_t y,
                              std::int64_t x) const {
        const ImageCrop& crop = crops[static_cast<std::size_t>(n)];
        const std::int64_t row = y + crop.down;
        const std::int64_t column = (crop.mirrored != 0 ? kWidth - 1 - x : x) + crop.right;
        if (row < 0 || row >= kHeight || column < 0 || column >= kWidth) {
            return 0;
        }
        const std::int64_t at = ((n * kChannels + c) * kHeight + row) * kWidth + column;
        const auto channel = static_cast<std::size_t>(c);
        return (static_cast<float>(values[static_cast<std::size_t>(at)]) - scales[channel]) *
               scales[kChannels + channel];
    }
    [[nodiscard]] BatchView as_stored(std::uint64_t serial) const {
        BatchView view = batch.view();
        view.samples = nullptr;
        view.stored = {.values = values.data(),
                       .crops = crops.data(),
                       .scales = scales.data(),
                       .channels = kChannels,
                       .elements = kChannels * kHeight * kWidth};
        view.serial = serial;
        return view;
    }
    [[nodiscard]] BatchView as_floats() const {
        BatchView view = batch.view();
        view.samples = normalised.data();
        return view;
    }

    static constexpr std::int64_t kChannels = 3;
    static constexpr std::int64_t kHeight = 8;
    static constexpr std::int64_t kWidth = 7;
    const OwnedBatch& batch;
    std::int64_t size;
    std::vector<std::uint8_t> values;
    std::vector<ImageCrop> crops;
    std::vector<float> scales{120, 110, 100, 0.02F, 0.017F, 0.013F};
    std::vector<float> normalised;
};

TEST_P(Input, SamplesAsTheyAreStoredTrainAsNormalisedOnes) {
    const Twin twin = network();
    const auto owned = GetParam().replica(twin.graph, {.deterministic = true});
    Replica& replica = owned->replica;
    randomise(replica, 1);
    const OwnedBatch random = random_batch(twin.graph, 6, 3);
    const StoredBatch batch(random);
    if (!GetParam().cuda) {
        EXPECT_THROW(replica.train_step(batch.as_stored(0)), UsageError);
        return;
    }
    const double loss = replica.train_step(batch.as_floats(), 1).loss_sum;
    const std::vector<float> gradients = host_copy(replica, replica.gradients());
    for (std::uint64_t serial = 1; serial <= 4; ++serial) {  // from the second on copied ahead
        Prefetcher ahead(replica, batch.as_stored(serial + 1));
        const auto result = replica.train_step(batch.as_stored(serial), 1, ahead);
        EXPECT_EQ(result.value().loss_sum, loss) << serial;
        EXPECT_EQ(host_copy(replica, replica.gradients()), gradients) << serial;
    }
}

}  // namespace
}  // namespace cohort::test

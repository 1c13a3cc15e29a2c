// A network's input on a GPU: samples as they are stored, cropped, mirrored and normalised there,
// have the bits of the CPU's, and so has all that follows; batches copied ahead of their steps too.
// With the CPU in a GPU's place.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/data/loader.hpp"
#include "cohort/model/replica.hpp"
#include "layers/cuda/kernels/input_kernels.hpp"
#include "support/data/memory_source.hpp"
#include "support/gpu/kernel_tensor.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

using cuda::ImageOrder;
using cuda::Tensor;
using test::MemorySource;
using test::set_info;

constexpr std::int64_t kSamples = 6;

/// Stored samples of a source with what makes an input of them on the device.
struct StoredRig {
    StoredRig(const MemorySource& source, const SampleTransform& transform)
        : scales(transform.scales()) {
        for (std::int64_t id = 0; id < kSamples; ++id) {
            crops.push_back(transform.crop_of(id, 3));
        }
        stored = {.values = reinterpret_cast<const std::uint8_t*>(source.sample(0)),
                  .crops = crops.data(),
                  .scales = scales.data(),
                  .channels = static_cast<std::int64_t>(scales.size() / 2),
                  .elements = source.info().sample_elements()};
    }
    std::vector<float> scales;
    std::vector<ImageCrop> crops;
    StoredSamples stored;
};

std::vector<float> by_transform(const MemorySource& source, const SampleTransform& transform) {
    const auto each = static_cast<std::size_t>(source.info().sample_elements());
    std::vector<float> values(each * kSamples);
    for (std::int64_t id = 0; id < kSamples; ++id) {
        transform.apply(source.sample(id), id, 3,
                        values.data() + each * static_cast<std::size_t>(id));
    }
    return values;
}

/// As an element of the type.
double rounded(float value, ElementType type) {
    return Tensor(type, 1, [&](std::int64_t) { return value; })[0];
}

TEST(StoredImages, HaveTheBitsOfTheCpusTransform) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{3, 8, 6}, {1, 5, 7}, {10, 4, 4}}) {
        const MemorySource source(set_info(shape, SampleType::kU8, kSamples, kSamples));
        for (const AugmentOptions& augment :
             {AugmentOptions{}, AugmentOptions{.pad = 4, .flip = true, .seed = 5},
              AugmentOptions{.pad = 2, .flip = false, .seed = 6}}) {
            const SampleTransform transform(source.info(), augment);
            const std::vector<float> expected = by_transform(source, transform);
            const StoredRig rig(source, transform);
            for (const ElementType type :
                 {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
                const auto lanes = static_cast<std::int64_t>(16 / element_bytes(type));
                const ImageOrder order{shape[0], (shape[0] + lanes - 1) / lanes * lanes,
                                       shape[1] * shape[2]};
                Tensor got(type, kSamples * order.pixels * order.stored);
                cuda::stored_images_to_channels_last(nullptr, order, shape[2], type, rig.stored,
                                                     got.data(), kSamples);
                for (std::int64_t i = 0; i < kSamples * order.pixels * order.stored; ++i) {
                    const std::int64_t from = image_source(order, i);
                    const float value = from < 0 ? 0.0F : expected[static_cast<std::size_t>(from)];
                    ASSERT_EQ(got[i], rounded(value, type)) << i << ", pad " << augment.pad;
                }
            }
        }
    }
}

TEST(StoredFeatures, HaveTheBitsOfTheCpusTransform) {
    for (const bool each : {false, true}) {
        SampleSetInfo info = set_info({7}, SampleType::kU8, kSamples, kSamples);
        if (each) {
            info.mean = {1, 2, 3, 4, 5, 6, 7};
            info.std = {3, 5, 7, 11, 13, 17, 19};
        }
        const MemorySource source(info);
        const SampleTransform transform(source.info(), {});
        const std::vector<float> expected = by_transform(source, transform);
        const StoredRig rig(source, transform);
        Tensor got(ElementType::kF32, kSamples * 7);
        cuda::stored_features(nullptr, 7, ElementType::kF32, rig.stored, got.data(), kSamples);
        for (std::int64_t i = 0; i < kSamples * 7; ++i) {
            ASSERT_EQ(got[i], expected[static_cast<std::size_t>(i)]) << i;
        }
    }
}

Graph network() {
    GraphBuilder net("input", Shape{3, 8, 8});
    Value x = net.relu(
        net.batch_norm(net.conv(net.input(), {.channels = 4, .padding = 1, .bias = false})));
    x = net.dropout(net.global_average_pool(x), 0.25F);
    return net.finish(net.linear(net.flatten(x), {.features = 10}));
}

/// Copies the next batch of a loader ahead, as a worker does.
class Ahead final : public StepObserver {
public:
    Ahead(Replica& replica, Loader& loader) : replica_(replica), loader_(loader) {}
    void begun() override {
        while (left > 0 && loader_.peek() == nullptr) {
            std::this_thread::yield();
        }
        if (const LoadedBatch* next = loader_.peek()) {
            replica_.prefetch(view_of(*next));
        }
    }
    int left = 0;  ///< batches that are still to come

private:
    Replica& replica_;
    Loader& loader_;
};

/// Losses and gradients of training steps with batches of several sizes.
std::vector<float> train(bool stored, bool ahead) {
    const auto device = make_cuda_device(0);
    Replica replica(network(), *device, {.deterministic = true});
    replica.initialise(1);
    LoaderOptions options;
    options.augment = {.pad = 2, .flip = true, .seed = 6};
    options.prefetch = 8;
    options.stored = stored;
    options.allocator = host_allocator(*device);
    Loader loader(std::make_shared<MemorySource>(set_info({3, 8, 8}, SampleType::kU8, 90, 16)),
                  options);
    const std::vector<std::int64_t> sizes{5, 12, 5, 5, 7, 12, 12, 1};
    std::int64_t first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        Lease lease{.id = i + 1, .epoch = static_cast<std::uint32_t>(i / 3), .position = 0};
        for (std::int64_t k = 0; k < sizes[i]; ++k) {
            lease.samples.push_back((7 * first++) % 90);
        }
        loader.submit(std::move(lease));
    }
    std::vector<float> results;
    Ahead observer(replica, loader);
    observer.left = static_cast<int>(sizes.size());
    StepObserver nobody;
    while (const auto batch = loader.next()) {
        --observer.left;
        EXPECT_EQ(batch->samples().empty(), stored);
        const auto result = replica.train_step(view_of(*batch), 9, ahead ? observer : nobody);
        results.push_back(static_cast<float>(result.value().loss_sum));
        results.insert(results.end(), replica.gradients().begin(), replica.gradients().end());
        if (batch->size() == 5) {
            results.push_back(static_cast<float>(replica.evaluate(view_of(*batch)).loss_sum));
        }
    }
    return results;
}

TEST(StoredBatches, TrainAsThoseThatTheCpuMakes) {
    const std::vector<float> expected = train(false, false);
    EXPECT_EQ(train(true, false), expected);
    EXPECT_EQ(train(true, true), expected) << "copied ahead";
    EXPECT_EQ(train(false, true), expected) << "copied ahead, normalised by the CPU";
}

TEST(StoredBatches, NeedAGpu) {
    const auto device = make_cpu_device(1);
    Replica replica(network(), *device);
    const std::vector<std::uint8_t> values(192);
    const std::int32_t label = 1;
    const std::int64_t id = 1;
    EXPECT_THROW(
        replica.train_step(
            {.labels = &label, .sample_ids = &id, .size = 1, .stored = {.values = values.data()}}),
        UsageError);
}

/// A batch that is copied ahead is not read from the host again; one with another number is.
TEST(Prefetch, IsForTheBatchWithItsNumber) {
    const auto device = make_cuda_device(0);
    Replica replica(network(), *device, {.deterministic = true});
    replica.initialise(1);
    std::vector<float> samples(2 * 192, 0.5F);
    const std::vector<std::int32_t> labels{1, 2};
    const std::vector<std::int64_t> ids{1, 2};
    const auto loss = [&](std::uint64_t serial) {
        return replica
            .train_step({.samples = samples.data(),
                         .labels = labels.data(),
                         .sample_ids = ids.data(),
                         .size = 2,
                         .serial = serial},
                        1)
            .loss_sum;
    };
    const auto fill = [&](int seed) {
        for (std::size_t i = 0; i < samples.size(); ++i) {
            samples[i] = static_cast<float>(cuda::noise(static_cast<std::int64_t>(i) * seed));
        }
    };
    fill(1);
    const double first = loss(0);
    replica.prefetch({.samples = samples.data(),
                      .labels = labels.data(),
                      .sample_ids = ids.data(),
                      .size = 2,
                      .serial = 41});
    fill(2);
    const double second = loss(42);
    EXPECT_NE(second, first) << "another batch's number";
    EXPECT_EQ(loss(0), second) << "no number";
    EXPECT_EQ(loss(41), first);
    EXPECT_EQ(loss(41), second) << "once only";
}

}  // namespace
}  // namespace cohort

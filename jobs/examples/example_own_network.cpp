// A network of one's own, trained with the library alone:
//
//     example_own_network                learns made-up images: which quarter is brightest?
//     example_own_network DATA.h5        learns a dataset file (docs/data.md)
//
// Ends with status 0 when the test accuracy is at least 80 %.

#include <cstdio>
#include <exception>
#include <memory>

#include "cohort/core/rng.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/data/loader.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/optim/schedule.hpp"

namespace {

/// Grey 8x8 images made on the fly, one brighter quarter each, whose number is the label. Data of
/// any origin can be trained on by deriving from SampleSource.
class Quarters final : public cohort::SampleSource {
public:
    explicit Quarters(std::int64_t first, std::int64_t samples) : first_(first) {
        info_.sample_shape = {1, 8, 8};
        info_.samples = samples;
        info_.chunk_samples = 64;
        info_.classes = 4;
        info_.mean = {110};
        info_.std = {65};
    }
    const cohort::SampleSetInfo& info() const override { return info_; }

    cohort::RawChunk read_chunk(std::int64_t index) override {
        cohort::RawChunk chunk{.first_sample = index * info_.chunk_samples, .samples = 64};
        for (std::int64_t i = 0; i < chunk.samples; ++i) {
            const std::int64_t id = first_ + chunk.first_sample + i;
            cohort::Rng rng(7, cohort::RngPurpose::kTest, static_cast<std::uint64_t>(id));
            const auto quarter = static_cast<int>(rng.next_below(4));
            for (int pixel = 0; pixel < 64; ++pixel) {
                const bool bright = pixel / 32 == quarter / 2 && pixel % 8 / 4 == quarter % 2;
                chunk.data.push_back(
                    static_cast<std::byte>(rng.next_below(200) + (bright ? 55 : 0)));
            }
            chunk.labels.push_back(quarter);
        }
        return chunk;
    }

private:
    std::int64_t first_;
    cohort::SampleSetInfo info_;
};

/// A small network with a shortcut and two branches, for samples of shape [C,H,W].
cohort::Graph my_network(const cohort::SampleSetInfo& info) {
    cohort::GraphBuilder net("mine", cohort::Shape(info.sample_shape));
    cohort::Value x = net.conv(net.input(), {.channels = 8, .kernel = 3, .padding = 1});
    x = net.relu(net.batch_norm(x));
    const cohort::Value branch = net.conv(x, {.channels = 8, .kernel = 3, .padding = 1});
    x = net.relu(net.add(x, net.batch_norm(branch)));
    x = net.concat({net.max_pool(x, {.kernel = 2}), net.average_pool(x, {.kernel = 2})});
    x = net.relu(net.linear(net.flatten(x), {.features = 32}));
    return net.finish(net.linear(net.dropout(x, 0.1F), {.features = info.classes}));
}

cohort::BatchView view(const cohort::LoadedBatch& batch) {
    return {.samples = batch.samples().data(),
            .labels = batch.labels().data(),
            .sample_ids = batch.sample_ids().data(),
            .size = batch.size(),
            .epoch = batch.epoch()};
}

/// Two epochs with SGD, then the accuracy on the test set.
double train_and_test(const std::shared_ptr<cohort::SampleSource>& train,
                      const std::shared_ptr<cohort::SampleSource>& test) {
    constexpr std::int64_t kBatch = 32;
    constexpr std::uint64_t kSeed = 1;
    const std::unique_ptr<cohort::Device> device = cohort::make_cpu_device(1);
    cohort::Replica replica(my_network(train->info()), *device);
    std::puts(replica.graph().describe().c_str());
    replica.initialise(kSeed);
    const cohort::FlatLayout& layout = replica.graph().parameters();
    const auto sgd = cohort::make_optimizer({.momentum = 0.9, .weight_decay = 1e-4}, layout, 0,
                                            layout.total(), *device, replica.stream());
    const std::int64_t budget = 2 * train->info().samples;
    const auto schedule = cohort::Schedule::parse("cosine:0.01").with_end(budget);

    cohort::LeaseLedger leases(train->info(), {.seed = kSeed}, budget);
    cohort::Loader loader(train, {});
    std::int64_t done = 0;
    while (auto lease = leases.take(kBatch)) {
        loader.submit(*lease);
        const auto batch = loader.next();
        const cohort::BatchResult result = replica.train_step(view(*batch), kSeed);
        const double fraction = static_cast<double>(batch->size()) / kBatch;
        sgd->update(replica.parameters(), replica.gradients(), fraction, schedule.lr(0.05, done));
        replica.fold_batch_statistics(0.1, fraction);
        done += leases.mark_applied(lease->id) ? batch->size() : 0;
        if (done % (50 * kBatch) == 0) {
            std::printf("%lld samples, loss %.3f\n", static_cast<long long>(done),
                        result.loss_sum / static_cast<double>(result.samples));
        }
    }
    cohort::Loader test_loader(test, {});
    double correct = 0;
    const bool whole =
        cohort::for_each_batch(test_loader, kBatch, [&](const cohort::LoadedBatch& batch) {
            correct += replica.evaluate(view(batch)).correct;
        });
    return whole ? correct / static_cast<double>(test->info().samples) : 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        cohort::Hdf5Thread hdf5;
        std::shared_ptr<cohort::SampleSource> train = std::make_shared<Quarters>(0, 6400);
        std::shared_ptr<cohort::SampleSource> test = std::make_shared<Quarters>(6400, 640);
        if (argc > 1) {
            train = cohort::open_dataset(argv[1], "train", hdf5);
            test = cohort::open_dataset(argv[1], "test", hdf5);
        }
        const double accuracy = train_and_test(train, test);
        std::printf("test accuracy %.1f %%\n", 100 * accuracy);
        return accuracy >= 0.8 ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

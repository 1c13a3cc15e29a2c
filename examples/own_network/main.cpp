// A program's own network on its own samples, trained by all ranks that mpirun starts:
//
//     mpirun -n 4 own_network OUT             learns made-up images: which quarter is brightest?
//     mpirun -n 4 own_network OUT --resume    goes on from the newest checkpoint in OUT
//
// The ranks are a ring of workers; without mpirun the process trains alone. OUT holds what a run of
// `cohort train` leaves: model.h5, metrics.jsonl, checkpoints.

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/comm/world.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/data/sample_source.hpp"
#include "cohort/model/graph.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/trainer.hpp"

namespace {

/// Grey 8x8 images made on the fly, one brighter quarter each, whose number is the label. Data of
/// any origin can be trained on by deriving from SampleSource.
class Quarters final : public cohort::SampleSource {
public:
    explicit Quarters(std::int64_t first, std::int64_t samples) : first_(first) {
        info_.sample_shape = {1, 8, 8};
        info_.samples = samples;
        info_.chunk_samples = kChunk;
        info_.classes = 4;
        info_.mean = {110};
        info_.std = {65};
        info_.source = "quarters";
    }
    const cohort::SampleSetInfo& info() const override { return info_; }

    cohort::RawChunk read_chunk(std::int64_t index) override {
        cohort::RawChunk chunk{.first_sample = index * kChunk, .samples = kChunk};
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
    static constexpr std::int64_t kChunk = 64;
    std::int64_t first_;
    cohort::SampleSetInfo info_;
};

/// A small network with a shortcut and two branches, for samples of shape [C,H,W].
cohort::Graph my_network(const cohort::ModelInput& input) {
    cohort::GraphBuilder net("mine", input.shape);
    cohort::Value x = net.conv(net.input(), {.channels = 8, .kernel = 3, .padding = 1});
    x = net.relu(net.batch_norm(x));
    const cohort::Value branch = net.conv(x, {.channels = 8, .kernel = 3, .padding = 1});
    x = net.relu(net.add(x, net.batch_norm(branch)));
    x = net.concat({net.max_pool(x, {.kernel = 2}), net.average_pool(x, {.kernel = 2})});
    x = net.relu(net.linear(net.flatten(x), {.features = 32}));
    return net.finish(net.linear(net.dropout(x, 0.1F), {.features = input.classes}));
}

/// Says how far the run is, on rank 0.
class Speaker final : public cohort::TrainHook {
public:
    void on_evaluation(cohort::TrainControl& run,
                       const cohort::EvaluationReport& evaluation) override {
        std::printf("%lld of %lld samples: test accuracy %.1f %%\n",
                    static_cast<long long>(evaluation.samples_applied),
                    static_cast<long long>(run.budget_samples()), 100 * evaluation.accuracy);
        std::fflush(stdout);
    }
};

cohort::TrainOptions my_options(const std::string& out, bool resume) {
    cohort::TrainOptions options;
    options.model = "mine";
    options.build = my_network;
    options.data = "quarters";
    options.out = out;
    options.resume = resume;
    options.batch = 16;
    options.lr = 0.05;
    options.epochs = 5;
    options.threads = 1;
    options.deterministic = true;
    options.checkpoint_every_samples = 4800;
    return options;
}

/// Collective.
int train(const std::string& out, bool resume, cohort::World& world) {
    cohort::TrainEnvironment environment;
    environment.world = &world;
    environment.samples = [](const std::string& group) {
        return group == "train" ? std::make_shared<Quarters>(0, 6400)
                                : std::make_shared<Quarters>(6400, 640);
    };
    environment.observer = [] { return std::make_unique<Speaker>(); };
    cohort::Trainer trainer(my_options(out, resume), environment);
    return static_cast<int>(cohort::exit_code(trainer.run()));
}

}  // namespace

int main(int argc, char** argv) {
    const bool resume = argc == 3 && std::string_view(argv[2]) == "--resume";
    if (argc < 2 || argc > 3 || (argc == 3 && !resume)) {
        std::fputs("usage: own_network OUT [--resume]\n", stderr);
        return static_cast<int>(cohort::ExitCode::kUsage);
    }
    try {
        cohort::World world({});
        try {
            const int code = train(argv[1], resume, world);
            world.finalize();
            return code;
        } catch (const cohort::Error&) {  // thrown on all ranks, in order
            world.finalize();
            throw;
        }
    } catch (const cohort::Error& error) {  // rank 0 has the text
        std::fprintf(stderr, "%s\n", error.what());
        return static_cast<int>(error.exit_code());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

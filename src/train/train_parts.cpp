#include "train_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>
#include <set>
#include <sstream>

#include "cohort/core/error.hpp"
#include "cohort/core/units.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/model/zoo.hpp"

namespace cohort {
namespace {

constexpr int kDefaultCropPixels = 4;

std::unique_ptr<Optimizer> make_run_optimizer(const TrainOptions& options, Replica& replica) {
    const FlatLayout& layout = replica.graph().parameters();
    return make_optimizer(optimizer_options(options), layout, 0, layout.total(), replica.device(),
                          replica.stream());
}

std::int64_t budget_of(const TrainOptions& options, std::int64_t epoch_samples) {
    if (options.samples > 0) {
        return options.samples;
    }
    const std::int64_t epochs = std::max<std::int64_t>(options.epochs, 1);
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / epoch_samples;
    if (epochs > most) {
        fail<UsageError>({.where = "--epochs",
                          .what = "that many samples cannot be counted",
                          .expected = fmt::format("<= {}", most),
                          .got = std::to_string(epochs)});
    }
    return epoch_samples * epochs;
}

Schedule make_schedule(const TrainOptions& options, std::int64_t budget) {
    std::string text = options.lr_schedule;
    if (options.warmup_samples > 0) {
        text += fmt::format("+warmup:{}", options.warmup_samples);
    }
    const Schedule schedule = Schedule::parse(text);
    return schedule.needs_end() ? schedule.with_end(budget) : schedule;
}

Graph make_run_model(const TrainOptions& options, const SampleSetInfo& train,
                     const SampleSetInfo& test) {
    if (train.sample_shape != test.sample_shape || train.classes != test.classes) {
        fail<FileError>({.where = options.data,
                         .what = "the train and test groups hold different samples",
                         .expected = format_shape(train.sample_shape),
                         .got = format_shape(test.sample_shape)});
    }
    return make_model(options.model, Shape(train.sample_shape), train.classes);
}

/// A whole number >= 1.
bool parse_pixels(const std::string& text, int& pixels) {
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, pixels);
    return error == std::errc() && end == last && pixels >= 1;
}

LoaderOptions loader_options(const TrainOptions& options, const AugmentOptions& augment,
                             const OrderOptions& order, Device& device) {
    LoaderOptions loader;
    loader.augment = augment;
    loader.threads = options.loader_threads;
    loader.order = order;
    loader.allocator = host_allocator(device);
    return loader;
}

}  // namespace

TrainParts::TrainParts(const TrainOptions& options, int cores)
    : train_set(open_dataset(options.data, "train", hdf5)),
      test_set(open_dataset(options.data, "test", hdf5)),
      device(make_device(options.device, options.threads > 0 ? options.threads : cores)),
      replica(make_run_model(options, train_set->info(), test_set->info()), *device,
              {.deterministic = options.deterministic}),
      optimizer(make_run_optimizer(options, replica)),
      budget_samples(budget_of(options, train_set->info().samples)),
      schedule(make_schedule(options, budget_samples)),
      order{.seed = options.seed},
      train_loader(train_set, loader_options(options, parse_augment(options.augment, options.seed),
                                             order, *device)),
      test_loader(test_set, loader_options(options, {}, {.shuffle = false}, *device)) {
}

OptimizerOptions optimizer_options(const TrainOptions& options) {
    OptimizerOptions choice;
    choice.kind = parse_optimizer_kind(options.optimizer);
    choice.momentum = options.momentum;
    choice.nesterov = options.nesterov;
    choice.weight_decay = options.weight_decay;
    choice.decoupled = choice.kind == OptimizerKind::kAdamW;
    return choice;
}

AugmentOptions parse_augment(const std::string& text, std::uint64_t seed) {
    AugmentOptions options{.seed = seed};
    if (text == "none") {
        return options;
    }
    std::istringstream parts(text);
    std::set<std::string> kinds;
    for (std::string part; std::getline(parts, part, ',');) {
        if (!kinds.insert(part.substr(0, part.find(':'))).second) {
            fail<UsageError>({.where = "--augment", .what = "names one thing twice", .got = text});
        }
        if (part == "flip") {
            options.flip = true;
        } else if (part == "pad-crop") {
            options.pad = kDefaultCropPixels;
        } else if (!part.starts_with("pad-crop:") || !parse_pixels(part.substr(9), options.pad)) {
            fail<UsageError>({.where = "--augment",
                              .what = "cannot be understood",
                              .expected = "none, or a list of pad-crop:PIXELS and flip",
                              .got = text,
                              .hint = "--augment pad-crop:4,flip"});
        }
    }
    return options;
}

std::vector<std::pair<std::string, std::string>> run_identity(const TrainOptions& options,
                                                              const SampleSetInfo& train) {
    return {
        {"model", options.model},
        {"dataset",
         fmt::format("{} x [{}] {}, chunks of {}, {} classes, mean {}, std {}, {}", train.samples,
                     fmt::join(train.sample_shape, ","),
                     train.type == SampleType::kU8 ? "uint8" : "float32", train.chunk_samples,
                     train.classes, fmt::join(train.mean, " "), fmt::join(train.std, " "),
                     train.checksum.empty() ? "no checksum" : train.checksum)},
        {"optimizer", options.optimizer},
        {"batch", std::to_string(options.batch)},
        {"seed", std::to_string(options.seed)},
    };
}

HostAllocator host_allocator(Device& device) {
    return [&device](std::size_t bytes) {
        auto buffer = std::make_shared<Buffer>(device.allocate_host(bytes));
        return std::shared_ptr<void>(buffer, buffer->data());
    };
}

BatchView view_of(const LoadedBatch& batch) {
    return {.samples = batch.samples().data(),
            .labels = batch.labels().data(),
            .sample_ids = batch.sample_ids().data(),
            .size = batch.size(),
            .epoch = batch.epoch()};
}

}  // namespace cohort

// Trains resnet20 on images in IDX files (28x28, as Fashion-MNIST comes) and prints the accuracy on
// the test images as one JSON line. The engine alone: no MPI, no HDF5.
//
//   gpu_accuracy --train PREFIX --test PREFIX [--device cuda] [--precision f32] [--seed 1]
//                [--epochs 8] [--samples N] [--batch 128] [--lr 0.1] [--threads 2]
//
// PREFIX-images and PREFIX-labels are the files, uncompressed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/model/replica.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/optim/optimizer.hpp"

namespace cohort {
namespace {

/// Images as floats of mean 0 and deviation 1 (Fashion-MNIST's), and labels.
struct Images {
    std::vector<float> pixels;
    std::vector<std::int32_t> labels;
    std::int64_t height = 0;
    std::int64_t width = 0;

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
    [[nodiscard]] std::size_t pixels_each() const {
        return static_cast<std::size_t>(height * width);
    }
};

struct IdxFile {
    std::vector<std::int64_t> extents;
    std::vector<unsigned char> bytes;
};

std::uint32_t big_endian(std::ifstream& file) {
    unsigned char bytes[4] = {};
    file.read(reinterpret_cast<char*>(bytes), 4);
    return (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) |
           (std::uint32_t{bytes[2]} << 8) | bytes[3];
}

IdxFile read_idx(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    IdxFile idx;
    const std::uint32_t magic = big_endian(file);
    std::int64_t size = 1;
    for (std::uint32_t axis = 0; file && axis < (magic & 0xFF); ++axis) {
        idx.extents.push_back(big_endian(file));
        size *= idx.extents.back();
    }
    if (!file || (magic >> 8) != 8 || size < 1 || size > (std::int64_t{1} << 32)) {
        fail<FileError>({.where = path, .what = "not an IDX file of bytes"});
    }
    idx.bytes.resize(static_cast<std::size_t>(size));
    if (!file.read(reinterpret_cast<char*>(idx.bytes.data()), static_cast<std::streamsize>(size))) {
        fail<FileError>({.where = path, .what = "ends early"});
    }
    return idx;
}

Images read_images(const std::string& prefix) {
    const IdxFile pixels = read_idx(prefix + "-images");
    const IdxFile labels = read_idx(prefix + "-labels");
    if (pixels.extents.size() != 3 || labels.extents.size() != 1 ||
        pixels.extents[0] != labels.extents[0]) {
        fail<FileError>({.where = prefix, .what = "images and labels do not fit together"});
    }
    Images images{.height = pixels.extents[1], .width = pixels.extents[2]};
    images.labels.assign(labels.bytes.begin(), labels.bytes.end());
    images.pixels.resize(pixels.bytes.size());
    std::transform(
        pixels.bytes.begin(), pixels.bytes.end(), images.pixels.begin(),
        [](unsigned char pixel) { return (static_cast<float>(pixel) / 255 - 0.286F) / 0.353F; });
    return images;
}

struct Options {
    std::string train;
    std::string test;
    std::string device = "cuda";
    Precision precision = Precision::kF32;
    std::uint64_t seed = 1;
    int epochs = 8;
    std::int64_t samples = 0;  ///< 0: all
    std::int64_t batch = 128;
    double lr = 0.1;
    int threads = 2;
};

/// A batch of the images with these numbers.
struct Batch {
    std::vector<float> samples;
    std::vector<std::int32_t> labels;
    std::vector<std::int64_t> ids;

    void take(const Images& images, const std::int64_t* numbers, std::int64_t count) {
        samples.clear();
        labels.clear();
        ids.assign(numbers, numbers + count);
        for (const std::int64_t id : ids) {
            const auto first =
                images.pixels.begin() + id * static_cast<std::int64_t>(images.pixels_each());
            samples.insert(samples.end(), first,
                           first + static_cast<std::int64_t>(images.pixels_each()));
            labels.push_back(images.labels[static_cast<std::size_t>(id)]);
        }
    }
    [[nodiscard]] BatchView view() const {
        return {.samples = samples.data(),
                .labels = labels.data(),
                .sample_ids = ids.data(),
                .size = static_cast<std::int64_t>(ids.size())};
    }
};

double accuracy(Replica& replica, const Images& images) {
    std::vector<std::int64_t> numbers(images.labels.size());
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    Batch batch;
    double correct = 0;
    constexpr std::int64_t kSize = 500;
    for (std::int64_t at = 0; at < images.count(); at += kSize) {
        batch.take(images, numbers.data() + at, std::min(kSize, images.count() - at));
        correct += replica.evaluate(batch.view()).correct;
    }
    return correct / static_cast<double>(images.count());
}

/// One epoch in an order drawn from seed and epoch; the rate falls along a half cosine over all.
double train_epoch(Replica& replica, Optimizer& optimizer, const Images& images,
                   const Options& options, int epoch) {
    const std::int64_t all =
        options.samples > 0 ? std::min(options.samples, images.count()) : images.count();
    std::vector<std::int64_t> order(static_cast<std::size_t>(all));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    Rng rng(options.seed, RngPurpose::kTest, static_cast<std::uint64_t>(epoch));
    for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[rng.next_below(static_cast<std::uint32_t>(i))]);
    }
    const std::int64_t steps = all / options.batch;
    Batch batch;
    double loss = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
        batch.take(images, order.data() + step * options.batch, options.batch);
        loss += replica.train_step(batch.view(), options.seed).loss_sum;
        const double done =
            (epoch + static_cast<double>(step) / static_cast<double>(steps)) / options.epochs;
        const double lr = options.lr * 0.5 * (1 + std::cos(done * 3.14159265358979));
        optimizer.update(replica.parameters(), replica.gradients(), 1, lr);
        replica.fold_batch_statistics(kBatchNormMomentum, 1);
    }
    return loss / static_cast<double>(std::max<std::int64_t>(1, steps * options.batch));
}

void run(const Options& options) {
    const Images train = read_images(options.train);
    const Images test = read_images(options.test);
    const auto device = make_device(options.device, options.threads);
    Replica replica(make_model("resnet20", Shape{1, train.height, train.width}, 10), *device,
                    {.precision = options.precision});
    replica.initialise(options.seed);
    const FlatLayout& layout = replica.graph().parameters();
    const auto optimizer = make_optimizer({.momentum = 0.9, .weight_decay = 5e-4}, layout, 0,
                                          layout.total(), *device, replica.stream());
    const auto start = std::chrono::steady_clock::now();
    double loss = 0;
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
        loss = train_epoch(replica, *optimizer, train, options, epoch);
        std::fputs(fmt::format("epoch {}: loss {:.4f}\n", epoch + 1, loss).c_str(), stderr);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::puts(fmt::format("{{\"bench\": \"accuracy\", \"device\": \"{}\", \"precision\": \"{}\", "
                          "\"seed\": {}, \"epochs\": {}, \"samples\": {}, \"loss\": {:.5f}, "
                          "\"accuracy\": {:.5f}, \"seconds\": {:.2f}}}",
                          options.device, word_of(options.precision), options.seed, options.epochs,
                          options.samples, loss, accuracy(replica, test), seconds.count())
                  .c_str());
}

Options parse(int count, char** arguments) {
    std::map<std::string, std::string> given;
    for (int i = 1; i + 1 < count; i += 2) {
        given[arguments[i]] = arguments[i + 1];
    }
    Options options;
    const auto take = [&](const char* name, auto&& set) {
        if (const auto found = given.find(name); found != given.end()) {
            set(found->second);
            given.erase(found);
        }
    };
    take("--train", [&](const std::string& value) { options.train = value; });
    take("--test", [&](const std::string& value) { options.test = value; });
    take("--device", [&](const std::string& value) { options.device = value; });
    take("--precision", [&](const std::string& value) {
        options.precision = parse_word<Precision>(value, "--precision");
    });
    take("--seed", [&](const std::string& value) { options.seed = std::stoull(value); });
    take("--epochs", [&](const std::string& value) { options.epochs = std::stoi(value); });
    take("--samples", [&](const std::string& value) { options.samples = std::stoll(value); });
    take("--batch", [&](const std::string& value) { options.batch = std::stoll(value); });
    take("--lr", [&](const std::string& value) { options.lr = std::stod(value); });
    take("--threads", [&](const std::string& value) { options.threads = std::stoi(value); });
    if (!given.empty() || count % 2 == 0 || options.train.empty() || options.test.empty()) {
        fail<UsageError>(
            {.where = "gpu_accuracy",
             .what = "wrong arguments",
             .expected = "--train PREFIX --test PREFIX and options with a value each"});
    }
    return options;
}

}  // namespace
}  // namespace cohort

int main(int count, char** arguments) {
    try {
        cohort::run(cohort::parse(count, arguments));
        return 0;
    } catch (const cohort::Error& error) {
        std::fputs(fmt::format("gpu_accuracy: {}\n", error.what()).c_str(), stderr);
        return static_cast<int>(error.exit_code());
    } catch (const std::exception& error) {
        std::fputs(fmt::format("gpu_accuracy: {}\n", error.what()).c_str(), stderr);
        return 1;
    }
}

// The parts of a worker's iteration and of a server's update, one after the other on an otherwise
// idle process, at several sizes; what is fixed and what grows comes from a line through medians.
#include "train/bench/profile_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/core/statistics.hpp"
#include "cohort/core/thread_team.hpp"
#include "cohort/core/version.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/data/lease.hpp"
#include "cohort/data/loader.hpp"
#include "cohort/networks/network.hpp"
#include "core/system/process_usage.hpp"
#include "sched/session/model_input.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

/// Random bytes as samples, or random tokens.
class SyntheticSet final : public SampleSource {
public:
    SyntheticSet(std::vector<std::int64_t> shape, std::int64_t classes, bool text) {
        constexpr std::int64_t kChunk = 256;
        constexpr std::int64_t kSamples = 16 * kChunk;
        info_ = {.sample_shape = std::move(shape),
                 .type = text ? SampleType::kI32 : SampleType::kU8,
                 .samples = kSamples,
                 .chunk_samples = kChunk,
                 .classes = classes,
                 .source = "synthetic"};
        const auto channels = text ? 0 : static_cast<std::size_t>(info_.sample_shape.front());
        info_.mean.assign(channels, 127.5F);
        info_.std.assign(channels, 73.9F);  // of bytes that are equally likely
    }
    [[nodiscard]] const SampleSetInfo& info() const override { return info_; }
    [[nodiscard]] RawChunk read_chunk(std::int64_t index) override {
        RawChunk chunk{.first_sample = index * info_.chunk_samples, .samples = info_.chunk_samples};
        Rng rng(1, RngPurpose::kTest, static_cast<std::uint64_t>(index));
        chunk.data.resize(static_cast<std::size_t>(chunk.samples) * info_.sample_bytes());
        const auto draw_class = [&] {
            return static_cast<std::int32_t>(
                rng.next_below(static_cast<std::uint32_t>(info_.classes)));
        };
        if (info_.tokens()) {
            for (std::size_t at = 0; at < chunk.data.size(); at += sizeof(std::int32_t)) {
                const std::int32_t token = draw_class();
                std::memcpy(chunk.data.data() + at, &token, sizeof token);
            }
            return chunk;
        }
        std::generate(chunk.data.begin(), chunk.data.end(),
                      [&] { return static_cast<std::byte>(rng.next_u32() & 0xFF); });
        chunk.labels.resize(static_cast<std::size_t>(chunk.samples));
        std::generate(chunk.labels.begin(), chunk.labels.end(), draw_class);
        return chunk;
    }

private:
    SampleSetInfo info_;
};

constexpr int kMostElements = 1 << 24;  ///< of a sample

/// "1x28x28" or "784".
std::vector<std::int64_t> parse_input(const std::string& text) {
    std::vector<std::int64_t> shape;
    const char* at = text.data();
    const char* const last = at + text.size();
    bool good = !text.empty();
    while (good && at <= last) {
        std::int64_t extent = 0;
        const auto [end, error] = std::from_chars(at, last, extent);
        good = error == std::errc() && extent >= 1 && extent <= 1'000'000 &&
               (end == last || *end == 'x');
        shape.push_back(extent);
        at = end + 1;
    }
    const double elements = std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>());
    if (!good || (shape.size() != 1 && shape.size() != 3) || elements > kMostElements) {
        fail<UsageError>({.where = "--input",
                          .what = "not the shape of a sample",
                          .expected = fmt::format("CxHxW or F, such as 1x28x28, at most {} numbers",
                                                  kMostElements),
                          .got = text});
    }
    return shape;
}

void check(const ProfileMeasureOptions& options) {
    if (options.batch < 1 || options.threads < 1 || options.loader_threads < 1 ||
        options.classes < 0) {
        fail<UsageError>({.where = "cohort profile",
                          .what = "a count is too small",
                          .expected = "--batch, --threads, --loader-threads >= 1"});
    }
    require(options.repetitions >= ProfileMeasureOptions::kLeastRepetitions, "--repetitions",
            fmt::format(">= {}", ProfileMeasureOptions::kLeastRepetitions),
            std::to_string(options.repetitions));
}

/// A quarter, a half, once and twice the batch; each once.
std::vector<std::int64_t> batch_sizes(std::int64_t batch) {
    const std::set<std::int64_t> sizes{std::max<std::int64_t>(batch / 4, 1),
                                       std::max<std::int64_t>(batch / 2, 1), batch, 2 * batch};
    return {sizes.begin(), sizes.end()};
}

/// A worker: device, network, input.
class Worker {
public:
    explicit Worker(const ProfileMeasureOptions& options)
        : options_(options),
          set_(make_set(options)),
          device_(make_device(options.device, options.threads)),
          replica_(make_graph({.model = options.model}, model_input(set_->info())), *device_,
                   replica_options(*device_, options.precision, false, options.tuning_file)),
          loader_(set_, loader_options()),
          book_(set_->info(), {}) {
        replica_.initialise(1);
        if (device_->kind() == DeviceKind::kCpu && options.threads == 1) {
            clock_ = std::make_unique<ThreadCpuClock>();
        } else {
            clock_ = std::make_unique<SteadyClock>();
        }
    }

    [[nodiscard]] const Graph& graph() const { return replica_.graph(); }
    [[nodiscard]] std::string device() const { return device_->description(); }
    [[nodiscard]] bool on_cpu() const { return device_->kind() == DeviceKind::kCpu; }

    /// Seconds of forward and backward.
    double device_s(std::int64_t batch) {
        const LoadedBatch loaded = load(batch);
        return median_of(options_.repetitions, [&] {
            return timed([&] { (void)replica_.train_step(view_of(loaded), 1); });
        });
    }
    /// Core seconds of all threads that prepare a batch.
    double input_s(std::int64_t batch) {
        const std::int64_t count = std::max<std::int64_t>(1024 / batch, 1);
        return median_of(options_.repetitions, [&] {
            const double before = process_cpu_seconds();
            for (std::int64_t i = 0; i < count; ++i) {
                (void)load(batch);
            }
            return (process_cpu_seconds() - before) / static_cast<double>(count);
        });
    }
    /// Of a step's time, the part after the loss is known.
    double backward_share(std::int64_t batch) {
        const LoadedBatch loaded = load(batch);
        if (device_->kind() == DeviceKind::kCpu) {
            (void)device_s(batch);  // kernels are chosen in the first steps
            replica_.set_profiling(true);
            for (std::int64_t i = 0; i < options_.repetitions; ++i) {
                (void)replica_.train_step(view_of(loaded), 1);
            }
            double forward = 0;
            double backward = 0;
            for (const LayerProfile& layer : replica_.profile()) {
                forward += layer.forward_s;
                backward += layer.backward_s;
            }
            replica_.set_profiling(false);
            return backward / (forward + backward);
        }
        // Layers are not timed on other devices: what inference takes is forward.
        const double forward = median_of(options_.repetitions, [&] {
            return timed([&] { (void)replica_.evaluate(view_of(loaded)); });
        });
        return std::clamp(1 - forward / device_s(batch), 0.0, 1.0);
    }

private:
    std::shared_ptr<SampleSource> make_set(const ProfileMeasureOptions& options) {
        if (options.data.empty()) {
            const ModelInput usual =
                usual_input({.model = options.model}, {.shape = {1, 28, 28}, .classes = 10});
            const auto extents = usual.shape.extents();
            return std::make_shared<SyntheticSet>(
                options.input.empty() ? std::vector(extents.begin(), extents.end())
                                      : parse_input(options.input),
                options.classes > 0 ? options.classes : usual.classes, usual.tokens);
        }
        return open_dataset(options.data, "train", hdf5_);
    }
    [[nodiscard]] LoaderOptions loader_options() {
        return {.augment = parse_augment(options_.augment, 1),
                .threads = options_.loader_threads,
                .prefetch = 1,
                .order = OrderOptions{},
                .allocator = host_allocator(*device_),
                .stored = device_->kind() == DeviceKind::kCuda};
    }
    /// The next samples of the set, never fewer because an epoch ends.
    LoadedBatch load(std::int64_t batch) {
        const std::int64_t most = std::min(batch, set_->info().samples);
        for (;;) {
            if (std::optional<Lease> lease = book_.take(most)) {
                check_invariant(book_.mark_applied(lease->id), "a lease is there once");
                if (lease->size() == most) {
                    loader_.submit(*std::move(lease));
                    return *loader_.next();
                }
            }
        }
    }
    double timed(const std::function<void()>& what) {
        const Clock::Seconds before = clock_->now();
        what();
        replica_.stream().synchronize();
        return (clock_->now() - before).count();
    }

    const ProfileMeasureOptions& options_;
    Hdf5Thread hdf5_;
    std::shared_ptr<SampleSource> set_;
    std::unique_ptr<Device> device_;
    Replica replica_;
    Loader loader_;
    LeaseLedger book_;
    std::unique_ptr<Clock> clock_;
};

/// Relative squares: sums of w, wx, wy, wxx, wxy with w = 1/y^2.
struct Sums {
    double n = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
};

}  // namespace

double median_of(std::int64_t repetitions, const std::function<double()>& measure, int warmup) {
    for (int i = 0; i < warmup; ++i) {
        (void)measure();
    }
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < repetitions; ++i) {
        seconds.push_back(measure());
    }
    return median(std::move(seconds));
}

CostFit fit_costs(std::span<const CostPoint> points) {
    Sums sums;
    for (const CostPoint& point : points) {
        if (!(point.seconds > 0)) {
            fail<UsageError>({.where = "fit of costs",
                              .what = "a measurement shows no time",
                              .expected = "seconds above 0",
                              .got = fmt::format("{}", point.seconds)});
        }
        const double weight = 1 / (point.seconds * point.seconds);
        sums.n += weight;
        sums.x += weight * point.units;
        sums.y += weight * point.seconds;
        sums.xx += weight * point.units * point.units;
        sums.xy += weight * point.units * point.seconds;
    }
    if (points.size() < 2) {
        fail<UsageError>({.where = "fit of costs",
                          .what = "too few measurements",
                          .expected = "2",
                          .got = std::to_string(points.size())});
    }
    const double spread = sums.n * sums.xx - sums.x * sums.x;
    const double slope = spread > 0 ? (sums.n * sums.xy - sums.x * sums.y) / spread : 0;
    const double fixed = (sums.y - slope * sums.x) / sums.n;
    if (slope < 0) {
        return {.fixed_s = sums.y / sums.n, .per_unit_s = 0};
    }
    if (fixed < 0) {
        return {.fixed_s = 0, .per_unit_s = sums.xy / sums.xx};
    }
    return {.fixed_s = fixed, .per_unit_s = slope};
}

MeasuredProfile measure_profile(const ProfileMeasureOptions& options) {
    check(options);
    Worker worker(options);
    const Graph& graph = worker.graph();
    const std::int64_t floats = graph.parameters().total() + graph.state().total();
    MeasuredProfile measured;
    measured.on_cpu = worker.on_cpu();
    measured.workload = {
        .name = graph.name(),
        .source =
            fmt::format("measured by cohort profile {}, {}, {}", revision(),
                        options.data.empty() ? "synthetic samples" : options.data, worker.device()),
        .cpu_threads = static_cast<double>(options.loader_threads),
        .backward_share = worker.backward_share(options.batch),
        .parameter_bytes = static_cast<double>(floats) * sizeof(float)};
    for (const std::int64_t batch : batch_sizes(options.batch)) {
        const auto samples = static_cast<double>(batch);
        measured.device.push_back({.units = samples, .seconds = worker.device_s(batch)});
        measured.input.push_back({.units = samples, .seconds = worker.input_s(batch)});
    }
    const CostFit device = fit_costs(measured.device);
    measured.workload.device_s = device.fixed_s;
    measured.workload.device_s_per_sample = device.per_unit_s;
    const CostFit input = fit_costs(measured.input);
    measured.workload.cpu_s = input.fixed_s;
    measured.workload.cpu_s_per_sample = input.per_unit_s;
    measured.updates = measure_updates(graph, {.kind = options.optimizer}, options.repetitions);
    const CostFit update = fit_costs(measured.updates);
    measured.update_s = update.fixed_s;
    // So small that no growth was seen: what the largest update reached.
    const CostPoint& largest =
        *std::max_element(measured.updates.begin(), measured.updates.end(),
                          [](const CostPoint& a, const CostPoint& b) { return a.units < b.units; });
    measured.memory_bytes_per_s =
        update.per_unit_s > 0 ? 1 / update.per_unit_s : largest.units / largest.seconds;
    return measured;
}

}  // namespace cohort

#include "cohort/model/replica.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "core/tensor/cuda.hpp"
#include "layers/model/executor.hpp"

namespace cohort {

struct Replica::Impl {
    Impl(TrainableModel& of, const ReplicaOptions& options)
        : graph(of.graph()),
          device(of.device()),
          stream(of.stream()),
          tuning(make_tuning_cache(options.tuning_file)),
          precision(device.kind() == DeviceKind::kCpu
                        ? cpu_precision(options.precision, options.bf16_anywhere)
                        : options.precision),
          support(make_kernel_support(device, stream, precision, options.deterministic)),
          training(make_executor(options, true)),
          inference(make_executor(options, false)),
          arena(device) {
        for (Executor* executor : {training.get(), inference.get()}) {
            executor->bind({.parameters = of.parameters().data(),
                            .gradients = of.gradients().data(),
                            .state = of.state().data(),
                            .batch_state = of.batch_state().data()});
        }
        if (support != nullptr) {
            support->prepare();
        }
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() {
        if (device.kind() == DeviceKind::kCuda) {
            try {  // what the kernels hold belongs to this GPU, whatever the thread used last
                cuda::use(device);
                stream.synchronize();
            } catch (const DeviceError& error) {
                log_warn("{}", error.what());
            }
        }
    }

    std::unique_ptr<Executor> make_executor(const ReplicaOptions& options, bool for_training) {
        const ExecutorSetting setting{.graph = graph,
                                      .device = device,
                                      .stream = stream,
                                      .training = for_training,
                                      .deterministic = options.deterministic,
                                      .recorded = options.recorded,
                                      .fuses_loss = true,
                                      .precision = precision,
                                      .tuning = tuning.get(),
                                      .support = support.get()};
        return device.kind() == DeviceKind::kCuda ? make_whole_batch_executor(setting)
                                                  : make_slice_executor(setting);
    }

    void check(const BatchView& batch) const {
        const bool classes = graph.loss() == LossKind::kSoftmaxCrossEntropy;
        const void* wanted = classes ? static_cast<const void*>(batch.labels)
                                     : static_cast<const void*>(batch.targets);
        check_input(batch);
        if (wanted == nullptr) {
            fail<UsageError>({.where = graph.name(),
                              .what = "empty batch",
                              .expected = classes ? "at least one sample with its label"
                                                  : "at least one sample with its targets"});
        }
        if (classes) {
            check_range("label out of range", {batch.labels, count(batch, graph.positions())},
                        graph.positions(), graph.classes());
        }
    }

    /// What infer() needs too.
    void check_input(const BatchView& batch) const {
        const bool stored = batch.stored.values != nullptr && !graph.reads_tokens();
        if (stored) {
            check_stored(batch.stored);
        }
        const void* input =
            stored ? static_cast<const void*>(batch.stored.values) : input_of(graph, batch);
        if (batch.size < 1 || input == nullptr) {
            fail<UsageError>({.where = graph.name(),
                              .what = "empty batch",
                              .expected = graph.reads_tokens() ? "at least one sample of tokens"
                                                               : "at least one sample"});
        }
        if (graph.reads_tokens()) {
            const std::int64_t positions = graph.input_shape().elements();
            check_range("token beyond the vocabulary", {batch.tokens, count(batch, positions)},
                        positions, graph.vocabulary());
        }
    }

    void check_stored(const StoredSamples& stored) const {
        const Shape& shape = graph.input_shape();
        const bool fits = shape.rank() != 2 && (stored.channels == shape[0] ||
                                                (shape.rank() == 1 && stored.channels == 1));
        if (support == nullptr) {
            fail<UsageError>({.where = graph.name(),
                              .what = "samples as they are stored on " + device.description(),
                              .expected = "normalised samples, but on a GPU"});
        }
        if (stored.elements != shape.elements() || !fits) {
            fail<ShapeError>({.where = graph.name(),
                              .what = "stored samples of another shape",
                              .expected = std::to_string(shape.elements()) + " values in " +
                                          std::to_string(shape[0]) + " channels",
                              .got = std::to_string(stored.elements) + " in " +
                                     std::to_string(stored.channels)});
        }
    }

    static std::size_t count(const BatchView& batch, std::int64_t per_sample) {
        return static_cast<std::size_t>(batch.size * per_sample);
    }

    /// @param per_sample  numbers that belong to one sample
    void check_range(std::string_view what, std::span<const std::int32_t> numbers,
                     std::int64_t per_sample, std::int64_t end) const {
        const auto wrong = std::find_if(numbers.begin(), numbers.end(), [&](std::int32_t number) {
            return number < 0 || number >= end;
        });
        if (wrong != numbers.end()) {
            fail<UsageError>({.where = graph.name(),
                              .what = what,
                              .expected = "0.." + std::to_string(end - 1),
                              .got = std::to_string(*wrong) + " in sample " +
                                     std::to_string((wrong - numbers.begin()) / per_sample) +
                                     " of the batch"});
        }
    }

    void check_training(const BatchView& batch) const {
        check(batch);
        if (batch.sample_ids == nullptr && draws_by_ids(graph)) {
            fail<UsageError>({.where = graph.name(),
                              .what = "batch without sample ids",
                              .expected = "the ids that key the masks of dropout"});
        }
    }

    const Graph& graph;
    Device& device;
    Stream& stream;
    std::shared_ptr<TuningCache> tuning;
    Precision precision;  ///< what it computes in
    std::unique_ptr<KernelSupport> support;
    std::unique_ptr<Executor> training;
    std::unique_ptr<Executor> inference;
    Arena arena;
};

Replica::Replica(Graph graph, Device& device, const ReplicaOptions& options)
    : TrainableModel(std::move(graph), device), impl_(std::make_unique<Impl>(*this, options)) {
}
Replica::~Replica() = default;

std::optional<BatchResult> Replica::train_step(const BatchView& batch, std::uint64_t seed,
                                               StepObserver& observer) {
    impl_->check_training(batch);
    return impl_->training->run({.batch = &batch, .seed = seed, .observer = &observer},
                                impl_->arena);
}

BatchResult Replica::train_step(const BatchView& batch, std::uint64_t seed) {
    impl_->check_training(batch);
    return *impl_->training->run({.batch = &batch, .seed = seed}, impl_->arena);
}

void Replica::prefetch(const BatchView& batch) {
    if (batch.serial != 0) {
        impl_->training->prefetch(batch);
    }
}

BatchResult Replica::evaluate(const BatchView& batch) {
    impl_->check(batch);
    return *impl_->inference->run({.batch = &batch}, impl_->arena);
}

void Replica::infer(const BatchView& batch, std::span<float> logits) {
    const std::int64_t wanted = batch.size * impl_->graph.outputs();
    if (static_cast<std::int64_t>(logits.size()) != wanted) {
        fail<ShapeError>({.where = impl_->graph.name(),
                          .what = "logits have the wrong size",
                          .expected = std::to_string(wanted),
                          .got = std::to_string(logits.size())});
    }
    impl_->check_input(batch);
    impl_->inference->run({.batch = &batch, .logits = logits.data()}, impl_->arena);
}

std::optional<double> Replica::step_seconds() const {
    return impl_->training->seconds();
}

std::size_t Replica::recorded_work() const {
    return impl_->training->recorded_work();
}

bool Replica::recorded() const {
    return impl_->training->recorded();
}

std::size_t Replica::arena_bytes() const noexcept {
    return impl_->arena.bytes();
}
std::size_t Replica::total_bytes() noexcept {
    return arena_bytes() + 2 * (parameters().size_bytes() + state().size_bytes()) +
           (impl_->support == nullptr ? 0 : impl_->support->bytes());
}

void Replica::set_profiling(bool on) {
    impl_->training->set_profiling(on);
    impl_->inference->set_profiling(on);
}

std::vector<LayerProfile> Replica::profile() const {
    const std::vector<NodeFlops> flops = flops_per_sample(impl_->graph);
    std::vector<LayerProfile> profile;
    for (const Graph::Node& node : impl_->graph.nodes()) {
        const std::string_view kind = node.layer->kind();
        profile.push_back({.name = node.name,
                           .kind = std::string(kind),
                           .is_convolution = kind.starts_with("conv"),
                           .flops = flops[profile.size()]});
    }
    impl_->training->add_profile(profile);
    impl_->inference->add_profile(profile);
    return profile;
}

}  // namespace cohort

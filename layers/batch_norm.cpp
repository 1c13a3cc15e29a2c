// Batch normalisation (Ioffe & Szegedy 2015), optionally + residual + ReLU, and its kernel for the
// CPU.
//
// Training forward: pass 0 sums x and x^2 while the producer's output is in cache, pass 1 applies
// y = act(scale x + offset + residual). Backward: pass 0 masks the gradient by y > 0 in place and
// sums g and g (x - mean); pass 1 writes the input's gradient. The masked output gradient *is* the
// residual branch's gradient, which is therefore never copied. Memory traffic per element: forward
// 2 reads, 1 write; backward 2 reads, 2 writes (+ what is still in cache).
#include <algorithm>
#include <cmath>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/format_cpu.hpp"
#include "layers/cpu/level/level_loops.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

/// Per-channel sums of one team member.
struct Sums {
    std::vector<double> first;
    std::vector<double> second;

    void clear(std::size_t channels) {
        first.assign(channels, 0.0);
        second.assign(channels, 0.0);
    }
};

/// Numbers of each channel.
struct ChannelValues {
    std::vector<float> shift;  ///< subtracted before squares are summed
    std::vector<float> mean;
    std::vector<float> scale;  ///< y = scale x + offset
    std::vector<float> offset;
    std::vector<float> a;  ///< the input's gradient: a g + b (x - mean) + d
    std::vector<float> b;
    std::vector<float> d;
    std::vector<double> inverse_deviation;

    explicit ChannelValues(std::size_t channels) : inverse_deviation(channels) {
        for (auto* values : {&shift, &mean, &scale, &offset, &a, &b, &d}) {
            values->resize(channels);
        }
    }
};

class BatchNormCpu final : public Kernel {
public:
    BatchNormCpu(const BatchNormSpec& spec, const KernelContext& context)
        : spec_(spec),
          format_(context.inputs.at(0)),
          training_(context.training),
          channels_(static_cast<std::size_t>(format_.shape[0])),
          padded_(static_cast<std::size_t>(view(1).groups * view(1).lanes)),
          values_(padded_),
          sums_(static_cast<std::size_t>(cpu_team(context.device).size())) {
        traits_.output = format_;
        traits_.forward_passes = training_ ? 2 : 1;
        traits_.backward_passes = 2;
        traits_.backward_reads_output = spec.relu && spec.add;
        if (spec.add) {
            residual_ = context.inputs.at(1);
            // A residual in another memory order is converted on the way, both ways.
            traits_.pass_through_input = residual_ == format_ ? 1 : -1;
        }
    }

    [[nodiscard]] static bool takes_bf16(const BatchNormSpec& /*spec*/,
                                         const KernelContext& context) {
        return of_one_type(context);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        if (spec_.add && !(residual_ == format_)) {
            const std::int64_t largest = *std::max_element(slice_sizes.begin(), slice_sizes.end());
            memory.forward_scratch = static_cast<std::size_t>(largest) * format_.sample_bytes();
        }
        return memory;
    }

    void begin_forward(std::byte* /*shared*/) override {
        if (!training_) {
            for (std::size_t c = 0; c < channels_; ++c) {
                set_affine(c, static_cast<double>(binding_.state[0][c]),
                           static_cast<double>(binding_.state[1][c]));
            }
            return;
        }
        std::copy_n(binding_.state[0], channels_, values_.shift.begin());
        clear_sums();
    }

    void forward(int pass, const KernelSlice& slice) override {
        const ChannelView v = view(slice.samples);
        if (training_ && pass == 0) {
            Sums& sums = sums_[static_cast<std::size_t>(slice.member)];
            with_elements(format_.type, [&](auto element) {
                using Element = decltype(element);
                loops<Element>().statistics(v, as<Element>(slice.inputs[0]), values_.shift.data(),
                                            sums.first.data(), sums.second.data());
            });
            return;
        }
        const float* added = spec_.add ? slice.inputs[1] : nullptr;
        if (spec_.add && !(residual_ == format_)) {
            auto* converted = reinterpret_cast<float*>(slice.scratch);
            convert_format(residual_, added, format_, converted, slice.samples);
            added = converted;
        }
        with_elements(format_.type, [&](auto element) {
            using Element = decltype(element);
            loops<Element>().apply(v, as<Element>(slice.inputs[0]), values_.scale.data(),
                                   values_.offset.data(), as<Element>(added), spec_.relu,
                                   as<Element>(slice.output));
        });
    }

    void end_forward(int pass, std::int64_t batch, std::byte* /*shared*/) override {
        if (!training_ || pass != 0) {
            return;
        }
        merge_sums();
        const double count = static_cast<double>(batch * view(1).pixels);
        for (std::size_t c = 0; c < channels_; ++c) {
            const double shifted = sums_[0].first[c] / count;
            const double mean = shifted + static_cast<double>(values_.shift[c]);
            const double variance = std::max(0.0, sums_[0].second[c] / count - shifted * shifted);
            binding_.batch_state[0][c] = static_cast<float>(mean);
            binding_.batch_state[1][c] = static_cast<float>(variance);
            set_affine(c, mean, variance);
        }
    }

    void begin_backward(std::byte* /*shared*/) override { clear_sums(); }

    void backward(int pass, const KernelSlice& slice) override {
        const ChannelView v = view(slice.samples);
        if (pass == 0) {
            Sums& sums = sums_[static_cast<std::size_t>(slice.member)];
            const ReluMask mask = !spec_.relu ? ReluMask::kNone
                                  : spec_.add ? ReluMask::kFromOutput
                                              : ReluMask::kFromInput;
            with_elements(format_.type, [&](auto element) {
                using Element = decltype(element);
                loops<Element>().reduce(
                    v, {values_.mean.data(), values_.scale.data(), values_.offset.data()}, mask,
                    as<Element>(slice.inputs[0]),
                    as<Element>(static_cast<const float*>(slice.output)),
                    as<Element>(slice.output_gradient), sums.first.data(), sums.second.data());
            });
            if (spec_.add && traits_.pass_through_input < 0 &&
                slice.input_gradients[1] != nullptr) {
                convert_format(format_, slice.output_gradient, residual_, slice.input_gradients[1],
                               slice.samples);
            }
        } else if (slice.input_gradients[0] != nullptr) {
            with_elements(format_.type, [&](auto element) {
                using Element = decltype(element);
                loops<Element>().input_gradient(
                    v, as<Element>(slice.inputs[0]),
                    as<Element>(static_cast<const float*>(slice.output_gradient)),
                    values_.mean.data(), values_.a.data(), values_.b.data(), values_.d.data(),
                    as<Element>(slice.input_gradients[0]));
            });
        }
    }

    void end_backward(int pass, std::int64_t batch, std::byte* /*shared*/) override {
        if (pass != 0) {
            return;
        }
        merge_sums();
        const double count = static_cast<double>(batch * view(1).pixels);
        for (std::size_t c = 0; c < channels_; ++c) {
            const double inverse = values_.inverse_deviation[c];
            const double sum = sums_[0].first[c];
            const double product = sums_[0].second[c] * inverse;  // sum of g x_hat
            binding_.gradients[0][c] = static_cast<float>(product);
            binding_.gradients[1][c] = static_cast<float>(sum);
            const double a = static_cast<double>(binding_.parameters[0][c]) * inverse;
            values_.a[c] = static_cast<float>(a);
            values_.b[c] = static_cast<float>(-a * inverse * product / count);
            values_.d[c] = static_cast<float>(-a * sum / count);
        }
    }

private:
    template <class Element>
    [[nodiscard]] static const BatchNormLoops<Element>& loops() {
        return level_loops().of<Element>().batch_norm;
    }
    [[nodiscard]] ChannelView view(std::int64_t samples) const {
        const Shape& s = format_.shape;
        if (s.rank() == 1) {
            return {samples, 1, 1, s[0]};
        }
        const std::int64_t lanes = format_.block;
        return {samples, (s[0] + lanes - 1) / lanes, s[1] * s[2], lanes};
    }

    void set_affine(std::size_t c, double mean, double variance) {
        const double inverse =
            1.0 / std::sqrt(variance + static_cast<double>(spec_.options.epsilon));
        const double scale = static_cast<double>(binding_.parameters[0][c]) * inverse;
        values_.inverse_deviation[c] = inverse;
        values_.mean[c] = static_cast<float>(mean);
        values_.scale[c] = static_cast<float>(scale);
        values_.offset[c] =
            static_cast<float>(static_cast<double>(binding_.parameters[1][c]) - mean * scale);
    }

    void clear_sums() {
        for (Sums& sums : sums_) {
            sums.clear(padded_);
        }
    }
    void merge_sums() {
        for (std::size_t member = 1; member < sums_.size(); ++member) {
            for (std::size_t c = 0; c < channels_; ++c) {
                sums_[0].first[c] += sums_[member].first[c];
                sums_[0].second[c] += sums_[member].second[c];
            }
        }
    }

    BatchNormSpec spec_;
    TensorFormat format_;
    TensorFormat residual_;
    bool training_;
    std::size_t channels_;
    std::size_t padded_;  ///< channels with those that fill their block
    ChannelValues values_;
    std::vector<Sums> sums_;
};

class BatchNorm final : public SpecLayer<BatchNormSpec, BatchNormCpu> {
public:
    using SpecLayer::SpecLayer;

    [[nodiscard]] std::string_view kind() const override {
        if (spec_.add) {
            return spec_.relu ? "batch_norm+add+relu" : "batch_norm+add";
        }
        return spec_.relu ? "batch_norm+relu" : "batch_norm";
    }

    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const std::size_t expected = spec_.add ? 2 : 1;
        if (inputs.size() != expected || (inputs[0].rank() != 1 && inputs[0].rank() != 3)) {
            fail<ShapeError>({.where = "batch_norm",
                              .what = "input does not fit",
                              .expected = "[C,H,W] or [F]",
                              .got = inputs.empty() ? "nothing" : to_string(inputs[0])});
        }
        if (spec_.add && !(inputs[0] == inputs[1])) {
            fail<ShapeError>({.where = "batch_norm+add",
                              .what = "shapes differ",
                              .expected = to_string(inputs[0]),
                              .got = to_string(inputs[1])});
        }
        return inputs[0];
    }

    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const Shape channels{inputs[0][0]};
        return {{"weight", channels, Initialisation::kOne, false},
                {"bias", channels, Initialisation::kZero, false}};
    }

    [[nodiscard]] std::vector<TensorSpec> state(std::span<const Shape> inputs) const override {
        const Shape channels{inputs[0][0]};
        return {{"running_mean", channels, Initialisation::kZero, false},
                {"running_var", channels, Initialisation::kOne, false}};
    }

    [[nodiscard]] std::shared_ptr<const Layer> with_relu() const override {
        return spec_.relu
                   ? nullptr
                   : std::make_shared<BatchNorm>(BatchNormSpec{spec_.options, spec_.add, true});
    }
    [[nodiscard]] std::shared_ptr<const Layer> with_add() const override {
        return spec_.add || spec_.relu
                   ? nullptr
                   : std::make_shared<BatchNorm>(BatchNormSpec{spec_.options, true, false});
    }
};

}  // namespace

std::shared_ptr<const Layer> make_batch_norm(const BatchNormOptions& options) {
    return std::make_shared<BatchNorm>(BatchNormSpec{options, false, false});
}

}  // namespace cohort

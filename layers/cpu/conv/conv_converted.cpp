#include "layers/cpu/conv/conv_converted.hpp"

#include <utility>

#include "layers/cpu/elements.hpp"

namespace cohort {
namespace {

class ConvertedProduct final : public ConvProduct {
public:
    ConvertedProduct(std::unique_ptr<ConvProduct> inner, const TensorFormat& from,
                     const TensorFormat& to, ElementType type)
        : inner_(std::move(inner)), from_(from), to_(to), type_(type) {}

    [[nodiscard]] std::string name() const override { return inner_->name(); }
    [[nodiscard]] bool prepare(std::int64_t samples) override { return inner_->prepare(samples); }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        return ConvertedTensors::bytes(from_, type_, samples) +
               ConvertedTensors::bytes(to_, type_, samples) + inner_->scratch_bytes(samples);
    }
    [[nodiscard]] std::size_t weight_bytes() const override { return inner_->weight_bytes(); }
    void prepare_weights(const float* weights, const float* bias,
                         std::byte* prepared) const override {
        inner_->prepare_weights(weights, bias, prepared);
    }
    void run(std::int64_t samples, const std::byte* prepared, const float* from, float* to,
             std::byte* scratch) const override {
        ConvertedTensors tensors(scratch, samples);
        const float* source = tensors.converted(from_, from, type_);
        float* target = tensors.room(to_, to, type_);
        inner_->run(samples, prepared, source, target, tensors.rest());
        tensors.hand_back(to_, target, type_, to);
    }

private:
    std::unique_ptr<ConvProduct> inner_;
    TensorFormat from_;
    TensorFormat to_;
    ElementType type_;
};

class ConvertedGradient final : public ConvWeightGradient {
public:
    ConvertedGradient(std::unique_ptr<ConvWeightGradient> inner, const ConvProblem& problem,
                      ElementType type)
        : inner_(std::move(inner)), input_(problem.input), output_(problem.output), type_(type) {}

    [[nodiscard]] std::string name() const override { return inner_->name(); }
    [[nodiscard]] bool prepare(std::int64_t samples) override { return inner_->prepare(samples); }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        return ConvertedTensors::bytes(input_, type_, samples) +
               ConvertedTensors::bytes(output_, type_, samples) + inner_->scratch_bytes(samples);
    }
    [[nodiscard]] std::size_t sum_bytes() const override { return inner_->sum_bytes(); }
    void run(std::int64_t samples, const float* source, const float* output_gradient, bool adds,
             std::byte* sums, std::byte* scratch) const override {
        ConvertedTensors tensors(scratch, samples);
        const float* from = tensors.converted(input_, source, type_);
        const float* gradient = tensors.converted(output_, output_gradient, type_);
        inner_->run(samples, from, gradient, adds, sums, tensors.rest());
    }
    [[nodiscard]] std::size_t finish_bytes() const override { return inner_->finish_bytes(); }
    void finish(const std::byte* sums, std::byte* memory, float* weights,
                float* bias) const override {
        inner_->finish(sums, memory, weights, bias);
    }

private:
    std::unique_ptr<ConvWeightGradient> inner_;
    TensorFormat input_;
    TensorFormat output_;
    ElementType type_;
};

bool has_type(const ConvProblem& problem, ElementType type) {
    return problem.input.type == type && problem.output.type == type;
}

}  // namespace

ConvProblem in_type(ConvProblem problem, ElementType type) {
    problem.input.type = type;
    problem.output.type = type;
    return problem;
}

std::unique_ptr<ConvProduct> converted(std::unique_ptr<ConvProduct> inner,
                                       const ConvProblem& problem, ConvDirection direction,
                                       ElementType type) {
    if (has_type(problem, type)) {
        return inner;
    }
    const bool forward = direction == ConvDirection::kForward;
    return std::make_unique<ConvertedProduct>(std::move(inner),
                                              forward ? problem.input : problem.output,
                                              forward ? problem.output : problem.input, type);
}

std::unique_ptr<ConvWeightGradient> converted(std::unique_ptr<ConvWeightGradient> inner,
                                              const ConvProblem& problem, ElementType type) {
    if (has_type(problem, type)) {
        return inner;
    }
    return std::make_unique<ConvertedGradient>(std::move(inner), problem, type);
}

}  // namespace cohort

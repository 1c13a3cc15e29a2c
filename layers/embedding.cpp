// Embedding: [T] tokens -> [T,F], a row of a table [V,F] per token (Bengio et al. 2003), and its
// kernel for the CPU. Forward copies rows. The gradient of a row is the sum over the places where
// its token stands, zero for all others: every team member sums the rows that it meets in a compact
// table of its own (F floats per different token), and the end of the pass adds these tables to the
// gradient, member by member. Cost: the bytes of the rows, and of the gradient that is cleared.
#include <algorithm>
#include <span>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

/// Sums of rows, of those tokens alone that occurred.
class RowSums {
public:
    RowSums(std::int64_t vocabulary, std::int64_t features)
        : features_(features), places_(static_cast<std::size_t>(vocabulary), kNone) {}

    void add(std::int32_t token, const float* row) {
        std::int32_t& place = places_[static_cast<std::size_t>(token)];
        if (place == kNone) {
            place = static_cast<std::int32_t>(tokens_.size());
            tokens_.push_back(token);
            sums_.insert(sums_.end(), row, row + features_);
            return;
        }
        accumulate(sums_.data() + place * features_, row, features_);
    }
    /// Adds the sums to those rows of the table and forgets them.
    void move_to(float* table) {
        for (std::size_t place = 0; place < tokens_.size(); ++place) {
            accumulate(table + tokens_[place] * features_,
                       sums_.data() + static_cast<std::int64_t>(place) * features_, features_);
        }
        clear();
    }
    void clear() {
        for (const std::int32_t token : tokens_) {
            places_[static_cast<std::size_t>(token)] = kNone;
        }
        tokens_.clear();
        sums_.clear();
    }

private:
    static constexpr std::int32_t kNone = -1;

    std::int64_t features_;
    std::vector<std::int32_t> places_;  ///< per token: its place in the sums
    std::vector<std::int32_t> tokens_;  ///< per place
    std::vector<float> sums_;
};

class EmbeddingCpu final : public Kernel {
public:
    EmbeddingCpu(const EmbeddingSpec& spec, const KernelContext& context)
        : positions_(context.inputs.at(0).shape[0]),
          features_(spec.options.features),
          table_floats_(spec.vocabulary * features_),
          team_(cpu_team(context.device)),
          members_(static_cast<std::size_t>(context.training ? team_.size() : 0),
                   RowSums(spec.vocabulary, features_)) {
        traits_.output = {Shape{positions_, features_}, 1};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        float* to = slice.output;
        for (const std::int32_t token : tokens(slice)) {
            std::copy_n(binding_.parameters[0] + token * features_, features_, to);
            to += features_;
        }
    }

    void begin_backward(std::byte* /*shared*/) override {
        for (RowSums& sums : members_) {  // left by a step that was abandoned
            sums.clear();
        }
    }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        RowSums& sums = members_[static_cast<std::size_t>(slice.member)];
        const float* row = slice.output_gradient;
        for (const std::int32_t token : tokens(slice)) {
            sums.add(token, row);
            row += features_;
        }
    }
    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* /*shared*/) override {
        float* gradient = binding_.gradients[0];
        if (!binding_.adds) {
            clear(gradient);
        }
        for (RowSums& sums : members_) {
            sums.move_to(gradient);
        }
    }

private:
    [[nodiscard]] std::span<const std::int32_t> tokens(const KernelSlice& slice) const {
        return {reinterpret_cast<const std::int32_t*>(slice.inputs[0]),
                static_cast<std::size_t>(slice.samples * positions_)};
    }
    void clear(float* gradient) const {
        team_.run([&](int member) {
            const auto [first, last] = part_of(table_floats_, member, team_.size());
            std::fill(gradient + first, gradient + last, 0.0F);
        });
    }

    std::int64_t positions_;
    std::int64_t features_;
    std::int64_t table_floats_;
    ThreadTeam& team_;
    std::vector<RowSums> members_;
};

class Embedding final : public SpecLayer<EmbeddingSpec, EmbeddingCpu> {
public:
    explicit Embedding(const EmbeddingSpec& spec) : SpecLayer(spec) {
        if (spec.options.features < 1) {
            fail<ShapeError>({.where = "embedding", .what = "features must be at least 1"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return "embedding"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return {only_input("embedding", inputs, 1)[0], spec_.options.features};
    }
    [[nodiscard]] std::vector<TensorSpec> parameters(
        std::span<const Shape> /*inputs*/) const override {
        return {{"weight", Shape{spec_.vocabulary, spec_.options.features},
                 Initialisation::kUniform, true}};
    }
};

}  // namespace

std::shared_ptr<const Layer> make_embedding(const EmbeddingOptions& options,
                                            std::int64_t vocabulary) {
    return std::make_shared<Embedding>(EmbeddingSpec{options, vocabulary});
}

}  // namespace cohort

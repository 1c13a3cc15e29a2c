// The networks of reference_random.hpp.
#include "support/layers/reference_random.hpp"

#include <vector>

#include "cohort/core/rng.hpp"

namespace cohort::test {
namespace {

class RandomNetwork {
public:
    explicit RandomNetwork(std::uint64_t seed)
        : rng_(seed, RngPurpose::kTest, 99),
          net_(Shape{1 + pick(4), 4 + pick(3), 4 + pick(3)}),
          values_{net_.input()} {}

    Twin draw() {
        grow(net_.conv(net_.input(), {.channels = channels(), .kernel = 1}));
        const std::int64_t layers = 3 + pick(9);
        for (std::int64_t i = 0; i < layers; ++i) {
            grow(next());
        }
        return net_.finish(logits());
    }

private:
    std::int64_t pick(std::int64_t below) {
        return rng_.next_below(static_cast<std::uint32_t>(below));
    }
    std::int64_t channels() {
        constexpr std::int64_t kChoices[] = {3, 8, 16, 17};
        return kChoices[pick(4)];
    }
    void grow(Value value) {
        values_.push_back(value);
        unread_.push_back(value.index);
    }
    Value read(Value value) {
        std::erase(unread_, value.index);
        return value;
    }
    /// A value so far; recent ones are likelier.
    Value any() {
        const auto count = static_cast<std::int64_t>(values_.size());
        return read(values_[static_cast<std::size_t>(count - 1 - pick(1 + pick(count)))]);
    }
    bool is_map(Value value) const { return net_.shape(value).rank() == 3; }
    /// Another value of the same shape, or the value itself.
    Value same_shape(Value value) {
        std::vector<Value> fitting;
        for (const Value other : values_) {
            if (net_.shape(other) == net_.shape(value)) {
                fitting.push_back(other);
            }
        }
        return read(
            fitting[static_cast<std::size_t>(pick(static_cast<std::int64_t>(fitting.size())))]);
    }
    Value next() {
        const Value x = any();
        switch (pick(is_map(x) ? 12 : 8)) {
            case 0:
            case 1: return net_.add(x, same_shape(x));
            case 2: return net_.add(net_.batch_norm(x), same_shape(x));
            case 3: return net_.relu(x);
            case 4: return net_.dropout(x, 0.25F);
            case 5: return net_.flatten(x);
            case 6: return net_.activation(x, ActivationKind::kTanh);
            case 7: return is_map(x) ? net_.batch_norm(x) : net_.linear(x, {.features = 6});
            case 8: return net_.concat({x, map_like(x), x});
            case 9: return net_.pool(x, PoolKind::kAverage, {3, 1, 1});
            default: return keep_size_conv(x);
        }
    }
    Value keep_size_conv(Value x) {
        const std::int64_t kernel = pick(2) == 0 ? 1 : 3;
        return net_.conv(x, {.channels = channels(), .kernel = kernel, .padding = kernel / 2});
    }
    Value map_like(Value x) {
        std::vector<Value> fitting;
        for (const Value other : values_) {
            if (is_map(other) && net_.shape(other)[1] == net_.shape(x)[1] &&
                net_.shape(other)[2] == net_.shape(x)[2]) {
                fitting.push_back(other);
            }
        }
        return read(
            fitting[static_cast<std::size_t>(pick(static_cast<std::int64_t>(fitting.size())))]);
    }
    /// Every value that nobody read yet leads here.
    Value logits() {
        Value sum{-1};
        for (const int index : std::vector<int>(unread_)) {
            Value x = read(Value{index});
            if (is_map(x) && pick(2) == 0) {
                x = net_.pool(x, PoolKind::kGlobalAverage);
            }
            x = net_.linear(net_.flatten(x), {.features = 5});
            sum = sum.index < 0 ? x : net_.add(sum, x);
        }
        return sum;
    }

    Rng rng_;
    TwinBuilder net_;
    std::vector<Value> values_;
    std::vector<int> unread_;
};

}  // namespace

Twin random_network(std::uint64_t seed) {
    return RandomNetwork(seed).draw();
}

}  // namespace cohort::test

// Options of layers as names and numbers. One list per kind of layer serves for writing and
// reading; an option with a usual value after it is left out where it has that value.
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

template <class Visit>
void each_option(ConvOptions& o, const Visit& visit) {
    visit("channels", o.channels);
    visit("kernel", o.kernel);
    visit("stride", o.stride);
    visit("padding", o.padding);
    visit("dilation", o.dilation);
    visit("groups", o.groups);
    visit("bias", o.bias);
}

template <class Visit>
void each_option(LinearOptions& o, const Visit& visit) {
    visit("features", o.features);
    visit("bias", o.bias);
    visit("uniform", o.uniform);
}

template <class Visit>
void each_option(LstmOptions& o, const Visit& visit) {
    visit("hidden", o.hidden);
}

template <class Visit>
void each_option(EmbeddingSpec& o, const Visit& visit) {
    visit("features", o.options.features);
    visit("vocabulary", o.vocabulary);
}

template <class Visit>
void each_option(PositionOptions& o, const Visit& visit) {
    visit("learned", o.learned);
    visit("scale", o.scale);
}

template <class Visit>
void each_option(LayerNormOptions& o, const Visit& visit) {
    visit("epsilon", o.epsilon);
}

template <class Visit>
void each_option(BatchNormOptions& o, const Visit& visit) {
    visit("epsilon", o.epsilon);
}

template <class Visit>
void each_option(AttentionOptions& o, const Visit& visit) {
    visit("heads", o.heads);
    visit("causal", o.causal);
}

template <class Visit>
void each_option(PoolOptions& o, const Visit& visit) {
    visit("kernel", o.kernel);
    visit("stride", o.stride);
    visit("padding", o.padding);
    visit("dilation", o.dilation, PerAxis(1));
    visit("count_padding", o.count_padding, false);
}

template <class Visit>
void each_option(DropoutSpec& o, const Visit& visit) {
    visit("probability", o.probability);
    visit("stream", o.stream);
}

/// Of a layer without options.
struct None {};
template <class Visit>
void each_option(None& /*options*/, const Visit& /*visit*/) {
}

/// One number where all are the same.
template <class T>
std::vector<double> numbers(const T& value) {
    return {static_cast<double>(value)};
}
std::vector<double> numbers(const PerAxis& value) {
    if (value == PerAxis(value.height)) {
        return numbers(value.height);
    }
    return {static_cast<double>(value.height), static_cast<double>(value.width)};
}
std::vector<double> numbers(const Padding& value) {
    if (value == Padding(value.top)) {
        return numbers(value.top);
    }
    return {static_cast<double>(value.top), static_cast<double>(value.left),
            static_cast<double>(value.bottom), static_cast<double>(value.right)};
}

template <class Options>
LayerAttributes listed(Options options) {
    LayerAttributes attributes;
    each_option(options, [&](const char* name, const auto& value, const auto&... usual) {
        if (sizeof...(usual) == 0 || !((value == usual) && ...)) {
            attributes.emplace(name, numbers(value));
        }
    });
    return attributes;
}

/// Whether an option of type T can be `value`.
template <class T>
bool can_hold(double value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value == 0 || value == 1;
    } else if constexpr (std::is_integral_v<T>) {
        return value == std::floor(value) && value >= 0 &&
               value <= std::numeric_limits<std::int32_t>::max();
    } else {
        return std::isfinite(value) && static_cast<double>(static_cast<T>(value)) == value;
    }
}

/// The option that the numbers are; false: they are none of its type.
template <class T>
bool assign(std::span<const double> from, T& to) {
    if (from.size() != 1 || !can_hold<T>(from[0])) {
        return false;
    }
    to = static_cast<T>(from[0]);
    return true;
}
/// The same of several: one number for all, or one for each.
bool assign_all(std::span<const double> from, std::span<std::int64_t> to) {
    if (from.size() != 1 && from.size() != to.size()) {
        return false;
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (!assign(from.subspan(from.size() == 1 ? 0 : i, 1), to[i])) {
            return false;
        }
    }
    return true;
}
bool assign(std::span<const double> from, PerAxis& to) {
    std::array<std::int64_t, 2> axes{};
    const bool good = assign_all(from, axes);
    to = {axes[0], axes[1]};
    return good;
}
bool assign(std::span<const double> from, Padding& to) {
    std::array<std::int64_t, 4> sides{};
    const bool good = assign_all(from, sides);
    to = {sides[0], sides[1], sides[2], sides[3]};
    return good;
}

template <class T>
constexpr const char* expected_of() {
    if constexpr (std::is_same_v<T, PerAxis>) {
        return "a whole number, or [height, width]";
    } else if constexpr (std::is_same_v<T, Padding>) {
        return "a whole number, or [top, left, bottom, right]";
    } else if constexpr (std::is_same_v<T, bool>) {
        return "0 or 1";
    } else {
        return std::is_integral_v<T> ? "a whole number" : "a number";
    }
}

std::string text_of(std::span<const double> numbers) {
    std::string text;
    for (const double number : numbers) {
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return text;
}

template <class Options>
Options read(std::string_view kind, LayerAttributes attributes) {
    Options options{};
    each_option(options, [&](const char* name, auto& value, const auto&... usual) {
        const auto found = attributes.find(name);
        if (found == attributes.end() && sizeof...(usual) > 0) {
            return;
        }
        if (found == attributes.end() || !assign(found->second, value)) {
            fail<UsageError>(
                {.where = kind,
                 .what = std::string("unusable attribute ") + name,
                 .expected = expected_of<std::remove_reference_t<decltype(value)>>(),
                 .got = found == attributes.end() ? "nothing" : text_of(found->second)});
        }
        attributes.erase(found);
    });
    if (!attributes.empty()) {
        fail<UsageError>(
            {.where = kind, .what = "unknown attribute", .got = attributes.begin()->first});
    }
    return options;
}

using Reader = std::shared_ptr<const Layer> (*)(const LayerAttributes&);
struct Kind {
    std::string_view name;
    Reader make;
};

template <PoolKind kKind>
std::shared_ptr<const Layer> read_pool(const LayerAttributes& attributes) {
    return make_pool(kKind, read<PoolOptions>(word_of(kKind), attributes));
}
template <ActivationKind kKind>
std::shared_ptr<const Layer> read_activation(const LayerAttributes& attributes) {
    (void)read<None>(word_of(kKind), attributes);
    return make_activation(kKind);
}

constexpr Kind kKinds[] = {
    {"conv", [](const auto& a) { return make_conv(read<ConvOptions>("conv", a)); }},
    {"linear", [](const auto& a) { return make_linear(read<LinearOptions>("linear", a)); }},
    {"lstm", [](const auto& a) { return make_lstm(read<LstmOptions>("lstm", a)); }},
    {"last_position",
     [](const auto& a) {
         (void)read<None>("last_position", a);
         return make_last_position();
     }},
    {"embedding",
     [](const auto& a) {
         const auto spec = read<EmbeddingSpec>("embedding", a);
         return make_embedding(spec.options, spec.vocabulary);
     }},
    {"position", [](const auto& a) { return make_position(read<PositionOptions>("position", a)); }},
    {"layer_norm",
     [](const auto& a) { return make_layer_norm(read<LayerNormOptions>("layer_norm", a)); }},
    {"attention",
     [](const auto& a) { return make_attention(read<AttentionOptions>("attention", a)); }},
    {"batch_norm",
     [](const auto& a) { return make_batch_norm(read<BatchNormOptions>("batch_norm", a)); }},
    {"relu", read_activation<ActivationKind::kRelu>},
    {"relu6", read_activation<ActivationKind::kRelu6>},
    {"gelu", read_activation<ActivationKind::kGelu>},
    {"sigmoid", read_activation<ActivationKind::kSigmoid>},
    {"tanh", read_activation<ActivationKind::kTanh>},
    {"max_pool", read_pool<PoolKind::kMax>},
    {"average_pool", read_pool<PoolKind::kAverage>},
    {"global_average_pool", read_pool<PoolKind::kGlobalAverage>},
    {"add",
     [](const auto& a) {
         (void)read<None>("add", a);
         return make_add();
     }},
    {"concat",
     [](const auto& a) {
         (void)read<None>("concat", a);
         return make_concat();
     }},
    {"flatten",
     [](const auto& a) {
         (void)read<None>("flatten", a);
         return make_flatten();
     }},
    {"dropout",
     [](const auto& a) {
         const auto spec = read<DropoutSpec>("dropout", a);
         return make_dropout(spec.probability, spec.stream);
     }},
};

}  // namespace

LayerAttributes attributes_of(const ConvSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const LinearSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const LstmSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const LastPositionSpec& /*spec*/) {
    return {};
}
LayerAttributes attributes_of(const BatchNormSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const ActivationKind& /*spec*/) {
    return {};
}
LayerAttributes attributes_of(const PoolSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const DropoutSpec& spec) {
    return listed(spec);
}
LayerAttributes attributes_of(const AddSpec& /*spec*/) {
    return {};
}
LayerAttributes attributes_of(const ConcatSpec& /*spec*/) {
    return {};
}
LayerAttributes attributes_of(const FlattenSpec& /*spec*/) {
    return {};
}
LayerAttributes attributes_of(const EmbeddingSpec& spec) {
    return listed(spec);
}
LayerAttributes attributes_of(const PositionSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const LayerNormSpec& spec) {
    return listed(spec.options);
}
LayerAttributes attributes_of(const AttentionSpec& spec) {
    return listed(spec.options);
}

std::shared_ptr<const Layer> make_layer(std::string_view kind, const LayerAttributes& attributes) {
    for (const Kind& known : kKinds) {
        if (known.name == kind) {
            return known.make(attributes);
        }
    }
    fail<UsageError>({.where = kind, .what = "unknown kind of layer"});
}

}  // namespace cohort

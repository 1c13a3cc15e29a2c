// The networks of reference_structures.hpp.
#include "support/layers/reference_structures.hpp"

#include <ostream>
#include <stdexcept>

namespace cohort::test {
namespace {

Value head(TwinBuilder& net, Value x) {
    return net.linear(net.flatten(x), {.features = 5});
}
Value conv(TwinBuilder& net, Value x, std::int64_t channels, std::int64_t kernel = 3,
           std::int64_t stride = 1) {
    return net.conv(
        x, {.channels = channels, .kernel = kernel, .stride = stride, .padding = kernel / 2});
}
Value conv_norm(TwinBuilder& net, Value x, std::int64_t channels, std::int64_t kernel = 3,
                std::int64_t stride = 1) {
    return net.batch_norm(conv(net, x, channels, kernel, stride));
}

const Shape kImage{3, 6, 5};

Value identity_block(TwinBuilder& net) {
    const Value x = net.relu(conv_norm(net, net.input(), 17));
    const Value y = conv_norm(net, net.relu(conv_norm(net, x, 17)), 17);
    return head(net, net.relu(net.add(y, x)));
}
Value identity_block_swapped(TwinBuilder& net) {
    const Value x = net.relu(conv_norm(net, net.input(), 8));
    return head(net, net.relu(net.add(x, conv_norm(net, x, 8))));
}
Value projection_block(TwinBuilder& net) {
    const Value x = net.relu(conv_norm(net, net.input(), 16));
    const Value shortcut = conv_norm(net, x, 20, 1, 2);
    const Value y = conv_norm(net, net.relu(conv_norm(net, x, 20, 3, 2)), 20);
    return head(net, net.relu(net.add(y, shortcut)));
}
Value chain_of_blocks(TwinBuilder& net) {
    Value x = net.relu(conv_norm(net, net.input(), 16));
    for (int block = 0; block < 3; ++block) {
        x = net.relu(net.add(conv_norm(net, x, 16), x));
    }
    return head(net, net.pool(x, PoolKind::kGlobalAverage));
}
Value residual_without_relu(TwinBuilder& net) {
    const Value x = conv_norm(net, net.input(), 16);
    const Value y = net.add(conv_norm(net, x, 16), x);
    return head(net, net.add(conv_norm(net, y, 16), y));
}
Value norm_plus_its_own_input(TwinBuilder& net) {
    const Value x = conv(net, net.input(), 9);
    return head(net, net.relu(net.add(net.batch_norm(x), x)));
}
Value input_plus_conv(TwinBuilder& net) {
    return head(net, net.add(net.input(), conv(net, net.input(), 3)));
}
Value conv_plus_input_relu(TwinBuilder& net) {
    return head(net, net.relu(net.add(conv(net, net.input(), 3), net.input())));
}
Value norm_plus_input(TwinBuilder& net) {
    return head(net, net.relu(net.add(conv_norm(net, net.input(), 3), net.input())));
}
Value norm_of_input_plus_conv(TwinBuilder& net) {
    // The residual is blocked, the normalised input is not.
    const Value y = conv(net, net.input(), 3);
    return head(net, net.relu(net.add(net.batch_norm(net.input()), y)));
}
Value norm_of_input_plus_shared_conv(TwinBuilder& net) {
    const Value y = conv(net, net.input(), 3);
    const Value z = net.relu(net.add(net.batch_norm(net.input()), y));
    return head(net, net.concat({y, z, conv(net, y, 4)}));
}
Value sum_with_itself(TwinBuilder& net) {
    const Value x = conv(net, net.input(), 7);
    return head(net, net.relu(net.add(x, x)));
}
Value sum_with_itself_and_more(TwinBuilder& net) {
    const Value x = conv(net, net.input(), 7);
    const Value y = net.add(x, x);
    return head(net, net.concat({y, net.activation(x, ActivationKind::kTanh), net.add(y, x)}));
}
Value sums_of_one_value(TwinBuilder& net) {
    const Value a = conv(net, net.input(), 8);
    const Value b = net.add(a, conv(net, net.input(), 8, 1));
    const Value c = net.add(a, net.activation(b, ActivationKind::kGelu));
    return head(net, net.add(net.add(a, b), c));
}
Value mixed_concat(TwinBuilder& net) {
    const Value a = conv(net, net.input(), 16);
    const Value b = conv(net, net.input(), 5);
    const Value whole = net.concat({net.input(), a, b, a});
    return head(net, conv(net, whole, 9));
}
Value aligned_concat(TwinBuilder& net) {
    const Value a = net.relu(conv(net, net.input(), 16));
    const Value b = net.relu(conv(net, net.input(), 32, 1));
    return head(net, conv(net, net.concat({b, a}), 4));
}
Value plain_concat(TwinBuilder& net) {
    const Value y = net.activation(net.input(), ActivationKind::kSigmoid);
    return head(net, net.concat({y, net.input()}));
}
Value relu_of_shared_value(TwinBuilder& net) {
    const Value x = conv(net, net.input(), 8);  // also read before the ReLU: must not be fused
    return head(net, net.concat({net.relu(x), x}));
}
Value relu_of_private_value(TwinBuilder& net) {
    const Value y = net.relu(conv(net, net.input(), 8));
    return head(net, net.concat({y, y}));
}
Value relu_of_shared_norm(TwinBuilder& net) {
    const Value x = conv_norm(net, net.input(), 8);
    return head(net, net.add(net.relu(x), conv(net, x, 8, 1)));
}
Value two_relus(TwinBuilder& net) {
    return head(net, net.relu(net.relu(net.relu(conv(net, net.input(), 6)))));
}
Value relu_before_sum(TwinBuilder& net) {
    const Value x = conv(net, net.input(), 8);
    return head(net, net.add(net.relu(net.batch_norm(x)), x));
}
Value two_heads(TwinBuilder& net) {
    const Value x = net.relu(conv(net, net.input(), 16));
    const Value a = net.linear(net.flatten(x), {.features = 5});
    const Value pooled = net.flatten(net.pool(x, PoolKind::kGlobalAverage));
    const Value b = net.linear(pooled, {.features = 5});
    return net.relu(net.add(a, b));
}
Value shared_views(TwinBuilder& net) {
    // [16,1,1] in blocks of 16 or 8 flattens without a copy.
    const Value x = net.pool(conv(net, net.input(), 16), PoolKind::kGlobalAverage);
    const Value a = net.flatten(x);
    const Value b = net.flatten(x);
    const Value sum = net.add(a, b);
    const Value left = net.linear(a, {.features = 5});
    const Value right = net.linear(net.add(sum, net.flatten(a)), {.features = 5});
    return net.add(left, right);
}
Value view_and_its_source(TwinBuilder& net) {
    const Value x = net.linear(net.flatten(net.input()), {.features = 9});
    const Value view = net.flatten(x);
    const Value y = net.add(net.batch_norm(x), view);
    return net.linear(net.add(view, y), {.features = 5});
}
Value consecutive_views(TwinBuilder& net) {
    Value x = net.dropout(net.input(), 0.2F);
    x = net.dropout(net.flatten(net.dropout(x, 0.1F)), 0.3F);
    x = net.flatten(net.flatten(x));
    return net.linear(net.dropout(x, 0.2F), {.features = 5});
}
Value dropout_everywhere(TwinBuilder& net) {
    Value x = net.dropout(net.relu(conv(net, net.input(), 17)), 0.25F);
    x = net.add(net.dropout(conv(net, x, 17), 0.5F), x);
    x = net.relu(net.linear(net.flatten(x), {.features = 12}));
    return net.linear(net.dropout(x, 0.4F), {.features = 5});
}
Value dropout_of_shared_value(TwinBuilder& net) {
    const Value x = conv_norm(net, net.input(), 8);
    const Value y = net.add(net.dropout(x, 0.5F), net.dropout(x, 0.5F));
    return head(net, net.add(y, x));
}
Value logits_through_views(TwinBuilder& net) {
    const Value x = conv(net, net.input(), 16, 1);
    return net.dropout(net.flatten(net.pool(x, PoolKind::kGlobalAverage)), 0.1F);
}
Value logits_of_odd_channels(TwinBuilder& net) {
    return net.flatten(net.pool(conv(net, net.input(), 11), PoolKind::kGlobalAverage));
}
Value logits_of_norm(TwinBuilder& net) {
    const Value x = net.linear(net.flatten(net.input()), {.features = 5});
    return net.batch_norm(net.add(net.batch_norm(x), x));
}
Value conv_then_norm_with_bias(TwinBuilder& net) {
    Value x = net.relu(net.batch_norm(net.conv(net.input(), {.channels = 20, .bias = true})));
    x = net.pool(x, PoolKind::kMax, {2, 2, 1});
    return head(net, x);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const StructureCase& c) {
    return out << c.name;
}

Twin StructureCase::make() const {
    TwinBuilder net(kImage);
    const Value logits = describe(net);
    return net.finish(logits);
}

#define STRUCTURE(f) \
    StructureCase {  \
#f, f        \
    }

std::vector<StructureCase> residual_structures() {
    return {STRUCTURE(identity_block),
            STRUCTURE(identity_block_swapped),
            STRUCTURE(projection_block),
            STRUCTURE(chain_of_blocks),
            STRUCTURE(residual_without_relu),
            STRUCTURE(norm_plus_its_own_input),
            STRUCTURE(input_plus_conv),
            STRUCTURE(conv_plus_input_relu),
            STRUCTURE(norm_plus_input),
            STRUCTURE(norm_of_input_plus_conv),
            STRUCTURE(norm_of_input_plus_shared_conv),
            STRUCTURE(sum_with_itself),
            STRUCTURE(sum_with_itself_and_more),
            STRUCTURE(sums_of_one_value)};
}

std::vector<StructureCase> joint_structures() {
    return {STRUCTURE(mixed_concat),
            STRUCTURE(aligned_concat),
            STRUCTURE(plain_concat),
            STRUCTURE(relu_of_shared_value),
            STRUCTURE(relu_of_private_value),
            STRUCTURE(relu_of_shared_norm),
            STRUCTURE(two_relus),
            STRUCTURE(relu_before_sum),
            STRUCTURE(two_heads),
            STRUCTURE(conv_then_norm_with_bias)};
}

std::vector<StructureCase> view_structures() {
    return {STRUCTURE(shared_views),
            STRUCTURE(view_and_its_source),
            STRUCTURE(consecutive_views),
            STRUCTURE(dropout_everywhere),
            STRUCTURE(dropout_of_shared_value),
            STRUCTURE(logits_through_views),
            STRUCTURE(logits_of_odd_channels),
            STRUCTURE(logits_of_norm)};
}

StructureCase structure(const std::string& name) {
    for (const auto& list : {residual_structures(), joint_structures(), view_structures()}) {
        for (const StructureCase& one : list) {
            if (name == one.name) {
                return one;
            }
        }
    }
    throw std::out_of_range("no structure is called " + name);
}

}  // namespace cohort::test

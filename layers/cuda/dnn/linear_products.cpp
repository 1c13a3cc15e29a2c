#include "layers/cuda/dnn/linear_products.hpp"

#include <algorithm>

#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/kernels/linear_kernels.hpp"

namespace cohort::cuda {

LinearProducts::LinearProducts(const LinearSpec& spec, const KernelContext& context,
                               std::int64_t inputs)
    : spec_(spec),
      context_(context),
      support_(support_of(context)),
      inputs_(inputs),
      outputs_(spec.options.features),
      type_(context.inputs.at(0).type) {
}

void LinearProducts::bind(const KernelBinding& binding) {
    binding_ = binding;
    weight_ = support_.want_weight(
        binding.parameters[0],
        {.outer = outputs_, .channels = inputs_, .padded_channels = inputs_, .type = type_});
    if (wanted_epilogue() == Epilogue::kBias) {
        bias_ = support_.want_weight(
            binding.parameters[1],
            {.outer = 1, .channels = outputs_, .padded_channels = outputs_, .type = type_});
    }
}

void LinearProducts::prepare(std::int64_t rows) {
    if (!products_.contains(rows)) {
        products_.emplace(rows, make(rows));
    }
}

std::size_t LinearProducts::forward_scratch(std::int64_t rows) const {
    return products_.at(rows).forward->scratch_bytes();
}

std::size_t LinearProducts::backward_scratch(std::int64_t rows) const {
    const Products& made = products_.at(rows);
    return std::max({made.weight->scratch_bytes(),
                     made.input == nullptr ? 0 : made.input->scratch_bytes(),
                     column_sum_scratch(rows, outputs_)});
}

void LinearProducts::forward(std::int64_t rows, const void* input, void* output, void* scratch) {
    const Products& made = products_.at(rows);
    const void* bias = wanted_epilogue() == Epilogue::kBias ? support_.weight(bias_) : nullptr;
    made.forward->run(input, support_.weight(weight_), output, bias, scratch);
    if (!spec_.relu && made.forward->epilogue() == wanted_epilogue()) {
        return;
    }
    if (spec_.options.bias) {
        add_bias(support_.stream(), type_, output, binding_.parameters[1], rows, outputs_,
                 spec_.relu);
    } else {
        relu_elements(support_.stream(), type_, output, output, rows * outputs_);
    }
}

void LinearProducts::backward(const Backward& call, void* scratch) {
    const Products& made = products_.at(call.rows);
    if (call.adds_weight) {
        made.weight->add(call.output_gradient, call.input, binding_.gradients[0], scratch);
    } else {
        made.weight->run(call.output_gradient, call.input, binding_.gradients[0], nullptr, scratch);
    }
    if (spec_.options.bias) {
        sum_columns(support_.stream(), type_, binding_.gradients[1], call.output_gradient,
                    call.rows, outputs_, scratch, call.adds_bias);
    }
    if (call.input_gradient != nullptr) {
        made.input->run(call.output_gradient, support_.weight(weight_), call.input_gradient,
                        nullptr, scratch);
    }
}

LinearProducts::Products LinearProducts::make(std::int64_t rows) const {
    const auto product = [&](const ProductShape& shape) {
        return std::make_unique<Product>(shape, context_);
    };
    Products made;
    made.forward = product({.rows = rows,
                            .columns = outputs_,
                            .depth = inputs_,
                            .transpose_b = true,
                            .in = type_,
                            .out = type_,
                            .epilogue = wanted_epilogue()});
    if (context_.training) {
        made.weight = product({.rows = outputs_,
                               .columns = inputs_,
                               .depth = rows,
                               .transpose_a = true,
                               .in = type_});
    }
    if (context_.training && context_.input_gradient) {
        made.input = product(
            {.rows = rows, .columns = inputs_, .depth = outputs_, .in = type_, .out = type_});
    }
    return made;
}

}  // namespace cohort::cuda

#include "layers/cuda/dnn/conv_graphs.hpp"

#include <utility>

namespace cohort::cuda {
namespace {

DnnDescriptor convolution(const ConvOptions& o) {
    const std::array<std::int64_t, 2> strides{o.stride.height, o.stride.width};
    const std::array<std::int64_t, 2> before{o.padding.top, o.padding.left};
    const std::array<std::int64_t, 2> after{o.padding.bottom, o.padding.right};
    const std::array<std::int64_t, 2> dilations{o.dilation.height, o.dilation.width};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    DnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
    made.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span(strides));
    made.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span(before));
    made.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span(after));
    made.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span(dilations));
    made.finalize("cuDNN convolution");
    return made;
}

/// A convolution operation's attributes, which have other names in each direction.
struct OperationNames {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t convolution;
    cudnnBackendAttributeName_t image;
    cudnnBackendAttributeName_t filter;
    cudnnBackendAttributeName_t result;
    cudnnBackendAttributeName_t alpha;
    cudnnBackendAttributeName_t beta;
};
constexpr OperationNames kForwardNames{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr OperationNames kDataNames{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr OperationNames kFilterNames{
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

DnnDescriptor operation(const OperationNames& names, const DnnDescriptor& convolution,
                        const DnnDescriptor& image, const DnnDescriptor& filter,
                        const DnnDescriptor& result, bool adds = false) {
    DnnDescriptor made(names.operation);
    made.set(names.convolution, convolution);
    made.set(names.image, image);
    made.set(names.filter, filter);
    made.set(names.result, result);
    made.set(names.alpha, 1.0F);
    made.set(names.beta, adds ? 1.0F : 0.0F);
    made.finalize("cuDNN convolution operation");
    return made;
}

/// y = x + b or ReLU(x); `second` may be null.
DnnDescriptor pointwise(cudnnPointwiseMode_t mode, std::vector<DnnDescriptor>& parts,
                        const DnnDescriptor& from, const DnnDescriptor* second,
                        const DnnDescriptor& to) {
    DnnDescriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    kind.finalize("cuDNN pointwise");
    DnnDescriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    if (second != nullptr) {
        made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *second);
    }
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    made.finalize("cuDNN pointwise operation");
    parts.push_back(std::move(kind));
    return made;
}

std::shared_ptr<const DnnGraph> plain_graph(const DnnTarget& target, const ConvProblem& problem,
                                            const OperationNames& names, bool adds = false) {
    std::vector<DnnDescriptor> parts;
    parts.push_back(convolution(problem.options));
    parts.push_back(make_descriptor(image_of(problem)));
    parts.push_back(make_descriptor(filter_of(problem)));
    parts.push_back(make_descriptor(result_of(problem)));
    std::vector<DnnDescriptor> operations;
    operations.push_back(operation(names, parts[0], parts[1], parts[2], parts[3], adds));
    return std::make_shared<const DnnGraph>(target,
                                            std::vector<std::int64_t>{kImage, kFilter, kResult},
                                            std::move(parts), std::move(operations));
}

/// The result before a tail: exists in the graph alone, in single precision.
DnnDescriptor middle(const ConvProblem& problem, ConvTensor uid) {
    DnnTensor tensor = result_of(problem);
    tensor.uid = uid;
    tensor.type = ElementType::kF32;
    tensor.is_virtual = true;
    return make_descriptor(tensor);
}

}  // namespace

std::string problem_text(const ConvProblem& p) {
    const ConvOptions& o = p.options;
    const auto text = [](std::int64_t value) { return std::to_string(value); };
    return "c" + text(p.channels) + " " + text(p.height) + "x" + text(p.width) + " k" +
           text(o.channels) + " " + text(o.kernel.height) + "x" + text(o.kernel.width) + " s" +
           to_string(o.stride) + " p" + to_string(o.padding) + " d" + to_string(o.dilation) + " g" +
           text(o.groups) + " " + std::string(word_of(p.type));
}

bool worth_fusing(const ConvProblem& p) noexcept {
    return p.samples * p.options.channels * p.out_height * p.out_width *
               static_cast<std::int64_t>(element_bytes(p.type)) >=
           kFusedFrom;
}

DnnTensor image_of(const ConvProblem& p) {
    return channels_last(kImage, {p.samples, p.channels, p.height, p.width}, p.type);
}
DnnTensor filter_of(const ConvProblem& p) {
    const ConvOptions& o = p.options;
    return channels_last(
        kFilter, {o.channels, p.filter_channels(), o.kernel.height, o.kernel.width}, p.type);
}
DnnTensor bias_of(const ConvProblem& p) {
    return channels_last(kBias, {1, p.options.channels, 1, 1}, ElementType::kF32);
}
DnnTensor result_of(const ConvProblem& p) {
    return channels_last(kResult, {p.samples, p.options.channels, p.out_height, p.out_width},
                         p.type);
}

std::shared_ptr<const DnnGraph> forward_graph(const DnnTarget& target, const ConvProblem& problem,
                                              ConvTail tail) {
    if (tail == ConvTail::kNone) {
        return plain_graph(target, problem, kForwardNames);
    }
    const bool bias = tail != ConvTail::kRelu;
    const bool relu = tail != ConvTail::kBias;
    std::vector<DnnDescriptor> parts;
    parts.reserve(8);  // references to earlier ones stay
    parts.push_back(convolution(problem.options));
    parts.push_back(make_descriptor(image_of(problem)));
    parts.push_back(make_descriptor(filter_of(problem)));
    parts.push_back(make_descriptor(result_of(problem)));
    parts.push_back(middle(problem, kMiddle));
    std::vector<DnnDescriptor> operations;
    operations.push_back(operation(kForwardNames, parts[0], parts[1], parts[2], parts[4]));
    std::size_t last = 4;  // where the result is so far
    if (bias) {
        parts.push_back(make_descriptor(bias_of(problem)));
        const std::size_t added = parts.size() - 1;
        if (relu) {
            parts.push_back(middle(problem, kSecondMiddle));
        }
        const std::size_t to = relu ? parts.size() - 1 : 3;
        operations.push_back(
            pointwise(CUDNN_POINTWISE_ADD, parts, parts[last], &parts[added], parts[to]));
        last = to;
    }
    if (relu) {
        operations.push_back(
            pointwise(CUDNN_POINTWISE_RELU_FWD, parts, parts[last], nullptr, parts[3]));
    }
    std::vector<std::int64_t> tensors{kImage, kFilter, kResult};
    if (bias) {
        tensors.push_back(kBias);
    }
    return std::make_shared<const DnnGraph>(target, std::move(tensors), std::move(parts),
                                            std::move(operations));
}

std::shared_ptr<const DnnGraph> data_graph(const DnnTarget& target, const ConvProblem& problem,
                                           bool adds) {
    return plain_graph(target, problem, kDataNames, adds);
}

std::shared_ptr<const DnnGraph> filter_graph(const DnnTarget& target, const ConvProblem& problem) {
    return plain_graph(target, problem, kFilterNames);
}

}  // namespace cohort::cuda

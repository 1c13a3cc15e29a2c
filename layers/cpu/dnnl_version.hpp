#pragma once

#include "layers/cpu/dnnl_support.hpp"

/// What differs between oneDNN 2 and 3: version 2 describes an operation first and then a primitive
/// that does it, version 3 describes the primitive at once, with a few more arguments. Scratchpads
/// are the caller's, the engine is dnnl_engine(). Errors: dnnl::error.
namespace cohort {

/// @param operation in the order of oneDNN's documentation
template <class Primitive, class... Operation>
[[nodiscard]] typename Primitive::primitive_desc describe_forward(const Operation&... operation) {
#if DNNL_VERSION_MAJOR >= 3
    return {dnnl_engine(), operation..., user_scratchpad()};
#else
    return {typename Primitive::desc(operation...), user_scratchpad(), dnnl_engine()};
#endif
}

/// @param forward description of the forward primitive
template <class Primitive, class Forward, class... Operation>
[[nodiscard]] typename Primitive::primitive_desc describe_backward(const Forward& forward,
                                                                   const Operation&... operation) {
#if DNNL_VERSION_MAJOR >= 3
    return {dnnl_engine(), operation..., forward, user_scratchpad()};
#else
    return {typename Primitive::desc(operation...), user_scratchpad(), dnnl_engine(), forward};
#endif
}

/// An elementwise function without parameters; input and output have the same layout.
[[nodiscard]] inline dnnl::eltwise_forward::primitive_desc describe_eltwise(
    dnnl::prop_kind kind, dnnl::algorithm function, const dnnl::memory::desc& data) {
#if DNNL_VERSION_MAJOR >= 3
    return describe_forward<dnnl::eltwise_forward>(kind, function, data, data, 0.0F, 0.0F);
#else
    return describe_forward<dnnl::eltwise_forward>(kind, function, data, 0.0F, 0.0F);
#endif
}

[[nodiscard]] inline dnnl::eltwise_backward::primitive_desc describe_eltwise_backward(
    const dnnl::eltwise_forward::primitive_desc& forward, dnnl::algorithm function,
    const dnnl::memory::desc& data) {
#if DNNL_VERSION_MAJOR >= 3
    return describe_backward<dnnl::eltwise_backward>(forward, function, data, data, data, 0.0F,
                                                     0.0F);
#else
    return describe_backward<dnnl::eltwise_backward>(forward, function, data, data, 0.0F, 0.0F);
#endif
}

/// A product of matrices.
[[nodiscard]] inline dnnl::matmul::primitive_desc describe_matmul(
    const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& c,
    const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
    return {dnnl_engine(), a, b, c, attributes};
#else
    return {dnnl::matmul::desc(a, b, c), attributes, dnnl_engine()};
#endif
}

[[nodiscard]] inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
    return desc.get_dims();
#else
    return desc.dims();
#endif
}

}  // namespace cohort

#pragma once

#include <pybind11/numpy.h>

#include <cstddef>

namespace cohort {

/// A numpy array of numbers, [count]: a copy of `values`, or with `owner` a view of them; null: not
/// filled. Strides are given because pybind11 before 2.12 misreads the size of elements of numpy 2.
template <class T>
[[nodiscard]] pybind11::array_t<T> make_array(std::size_t count, const T* values = nullptr,
                                              pybind11::handle owner = {}) {
    return pybind11::array_t<T>({static_cast<pybind11::ssize_t>(count)},
                                {static_cast<pybind11::ssize_t>(sizeof(T))}, values, owner);
}

}  // namespace cohort

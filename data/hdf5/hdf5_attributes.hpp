#pragma once

#include "data/hdf5/hdf5_handle.hpp"

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// The type of a T in memory, which is also its type in files. On the HDF5 thread.
template <class T>
[[nodiscard]] hid_t hdf5_type() {
    if constexpr (std::same_as<T, float>) {
        return H5T_NATIVE_FLOAT;
    } else if constexpr (std::same_as<T, double>) {
        return H5T_NATIVE_DOUBLE;
    } else if constexpr (std::same_as<T, std::int64_t>) {
        return H5T_NATIVE_INT64;
    } else if constexpr (std::same_as<T, std::uint64_t>) {
        return H5T_NATIVE_UINT64;
    } else {
        static_assert(std::same_as<T, std::byte>);
        return H5T_NATIVE_UINT8;
    }
}

/// Attributes of the object `object`; `where` names file and object in errors. Readers throw
/// FileError when the attribute is missing or has another type, naming it.
[[nodiscard]] bool hdf5_has_attribute(hid_t object, const std::string& name,
                                      std::string_view where);
/// T is std::string (text of fixed or variable length: h5py writes the latter), double (one
/// floating-point number), std::int64_t or std::uint64_t (one integer of any width), or
/// std::vector<double> (a list of numbers of any type, or one).
template <class T>
[[nodiscard]] T hdf5_read(hid_t object, const std::string& name, std::string_view where);

/// Writes `count` values of the type, replacing an attribute of the same name. @param count  0: one
/// value that is no list
void hdf5_write_values(hid_t object, const std::string& name, hid_t type, const void* values,
                       hsize_t count, std::string_view where);
void hdf5_write(hid_t object, const std::string& name, std::string_view text,
                std::string_view where);
/// A list of doubles [values.size()].
void hdf5_write(hid_t object, const std::string& name, std::span<const double> values,
                std::string_view where);
template <class Number>
requires std::is_arithmetic_v<Number>
void hdf5_write(hid_t object, const std::string& name, Number value, std::string_view where) {
    hdf5_write_values(object, name, hdf5_type<Number>(), &value, 0, where);
}

}  // namespace cohort

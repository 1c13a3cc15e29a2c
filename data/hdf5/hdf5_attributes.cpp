#include "data/hdf5/hdf5_attributes.hpp"

#include "cohort/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

namespace {

struct OpenAttribute {
    Hdf5Handle attribute;
    Hdf5Handle type;
    std::size_t count = 0;
    std::string where;
};

OpenAttribute open_attribute(hid_t object, const std::string& name, std::string_view where) {
    if (!hdf5_has_attribute(object, name, where)) {
        fail<FileError>({.where = where,
                         .what = fmt::format("attribute '{}' is missing", name),
                         .hint = "docs/data.md for what a file must have, or cohort import"});
    }
    OpenAttribute open;
    open.where = fmt::format("{}@{}", where, name);
    open.attribute = hdf5_own(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, open.where,
                              "cannot open the attribute");
    open.type = hdf5_own(H5Aget_type(open.attribute.id()), H5Tclose, open.where,
                         "cannot read the attribute's type");
    const Hdf5Handle space = hdf5_own(H5Aget_space(open.attribute.id()), H5Sclose, open.where,
                                      "cannot read the attribute's shape");
    open.count = static_cast<std::size_t>(hdf5_check(
        H5Sget_simple_extent_npoints(space.id()), open.where, "cannot read the attribute's shape"));
    return open;
}

void require_attribute(bool holds, const OpenAttribute& open, std::string_view expected) {
    if (!holds) {
        fail<FileError>(
            {.where = open.where,
             .what = "wrong attribute",
             .expected = expected,
             .got = fmt::format("{} of type {}", open.count, hdf5_type_name(open.type.id()))});
    }
}

void read(const OpenAttribute& open, hid_t type, void* values) {
    hdf5_check(H5Aread(open.attribute.id(), type, values), open.where, "cannot read the attribute");
}

template <class T>
T read_one_integer(hid_t object, const std::string& name, std::string_view where, hid_t type) {
    const OpenAttribute open = open_attribute(object, name, where);
    require_attribute(open.count == 1 && H5Tget_class(open.type.id()) == H5T_INTEGER, open,
                      "one integer");
    T value{};
    read(open, type, &value);
    return value;
}

/// Writes an attribute, replacing one of the same name.
void write(hid_t object, const std::string& name, hid_t type, const Hdf5Handle& space,
           const void* values, std::string_view where) {
    const std::string place = fmt::format("{}@{}", where, name);
    if (hdf5_has_attribute(object, name, where)) {
        hdf5_check(H5Adelete(object, name.c_str()), place, "cannot replace the attribute");
    }
    Hdf5Handle attribute =
        hdf5_own(H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                 H5Aclose, place, "cannot create the attribute");
    hdf5_check(H5Awrite(attribute.id(), type, values), place, "cannot write the attribute");
    attribute.close(place);
}

Hdf5Handle scalar(std::string_view where) {
    return hdf5_own(H5Screate(H5S_SCALAR), H5Sclose, where, "cannot make a scalar shape");
}

}  // namespace

bool hdf5_has_attribute(hid_t object, const std::string& name, std::string_view where) {
    return hdf5_check(H5Aexists(object, name.c_str()), where, "cannot look for an attribute") > 0;
}

std::string hdf5_read_text(hid_t object, const std::string& name, std::string_view where) {
    const OpenAttribute open = open_attribute(object, name, where);
    require_attribute(open.count == 1 && H5Tget_class(open.type.id()) == H5T_STRING, open, "text");
    if (H5Tis_variable_str(open.type.id()) > 0) {
        char* text = nullptr;
        read(open, open.type.id(), static_cast<void*>(&text));
        std::string result = text == nullptr ? "" : text;
        static_cast<void>(H5free_memory(text));
        return result;
    }
    std::string result(H5Tget_size(open.type.id()), '\0');
    read(open, open.type.id(), result.data());
    result.resize(std::min(result.find('\0'), result.size()));
    return result;
}

std::int64_t hdf5_read_integer(hid_t object, const std::string& name, std::string_view where) {
    return read_one_integer<std::int64_t>(object, name, where, H5T_NATIVE_INT64);
}

std::uint64_t hdf5_read_unsigned(hid_t object, const std::string& name, std::string_view where) {
    return read_one_integer<std::uint64_t>(object, name, where, H5T_NATIVE_UINT64);
}

double hdf5_read_number(hid_t object, const std::string& name, std::string_view where) {
    const OpenAttribute open = open_attribute(object, name, where);
    require_attribute(open.count == 1 && H5Tget_class(open.type.id()) == H5T_FLOAT, open,
                      "one real number");
    double value = 0;
    read(open, H5T_NATIVE_DOUBLE, &value);
    return value;
}

std::vector<double> hdf5_read_numbers(hid_t object, const std::string& name,
                                      std::string_view where) {
    const OpenAttribute open = open_attribute(object, name, where);
    const H5T_class_t kind = H5Tget_class(open.type.id());
    require_attribute(kind == H5T_INTEGER || kind == H5T_FLOAT, open, "numbers");
    std::vector<double> values(open.count);
    read(open, H5T_NATIVE_DOUBLE, values.data());
    return values;
}

void hdf5_write_text(hid_t object, const std::string& name, std::string_view text,
                     std::string_view where) {
    const Hdf5Handle type = hdf5_own(H5Tcopy(H5T_C_S1), H5Tclose, where, "cannot make a type");
    // Of fixed length: HDF5 keeps variable-length text without a checksum.
    const std::string terminated(text);
    hdf5_check(H5Tset_size(type.id(), terminated.size() + 1), where, "cannot make a type");
    hdf5_check(H5Tset_cset(type.id(), H5T_CSET_UTF8), where, "cannot make a type");
    write(object, name, type.id(), scalar(where), terminated.c_str(), where);
}

void hdf5_write_integer(hid_t object, const std::string& name, std::int64_t value,
                        std::string_view where) {
    write(object, name, H5T_NATIVE_INT64, scalar(where), &value, where);
}

void hdf5_write_unsigned(hid_t object, const std::string& name, std::uint64_t value,
                         std::string_view where) {
    write(object, name, H5T_NATIVE_UINT64, scalar(where), &value, where);
}

void hdf5_write_number(hid_t object, const std::string& name, double value,
                       std::string_view where) {
    write(object, name, H5T_NATIVE_DOUBLE, scalar(where), &value, where);
}

void hdf5_write_numbers(hid_t object, const std::string& name, std::span<const double> values,
                        std::string_view where) {
    const hsize_t count = values.size();
    const Hdf5Handle space =
        hdf5_own(H5Screate_simple(1, &count, nullptr), H5Sclose, where, "cannot make a shape");
    write(object, name, H5T_NATIVE_DOUBLE, space, values.data(), where);
}

}  // namespace cohort

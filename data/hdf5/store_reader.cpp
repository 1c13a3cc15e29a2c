#include "cohort/core/error.hpp"
#include "core/units.hpp"
#include "data/hdf5/store.hpp"

#include "data/hdf5/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"
#include "data/hdf5/hdf5_handle.hpp"
#include "data/hdf5/store_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace cohort {

namespace {

/// Absolute paths of all data sets. On the HDF5 thread.
std::vector<std::string> array_names(const Hdf5Handle& file, const std::string& path) {
    std::vector<std::string> names;
    const auto visit = [](hid_t, const char* name, const H5O_info_t* info, void* list) -> herr_t {
        if (info->type == H5O_TYPE_DATASET) {
            static_cast<std::vector<std::string>*>(list)->emplace_back(std::string("/") + name);
        }
        return 0;
    };
    hdf5_check(H5Ovisit2(file.id(), H5_INDEX_NAME, H5_ITER_INC, visit, &names, H5O_INFO_BASIC),
               path, "cannot list the arrays");
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

struct StoreReader::State {
    State(std::string store_path, Hdf5Thread& hdf5) : path(std::move(store_path)), thread(hdf5) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        try {
            thread.run([&] { file.reset(); });
        } catch (const std::exception&) {
            return;  // queueing failed for lack of memory; HDF5 closes the file at exit
        }
    }

    std::string path;
    Hdf5Thread& thread;
    Hdf5Handle file;  ///< used and closed on the HDF5 thread
    StoreFormat format;
    StoreStamp stamp;
    std::vector<std::string> names;

    void open(Hdf5Handle opened);
    [[nodiscard]] std::string where(std::string_view object) const {
        return fmt::format("{}:{}", path, object);
    }
    [[nodiscard]] bool contains(std::string_view name) const {
        return std::binary_search(names.begin(), names.end(), name);
    }
    [[nodiscard]] Hdf5Handle open_array(std::string_view name) const;
    template <StoreElement T>
    [[nodiscard]] Hdf5Handle open_typed(std::string_view name) const;
    template <StoreElement T>
    void read(const Hdf5Handle& array, std::string_view name, std::span<T> values) const;
    [[nodiscard]] Hdf5Handle open_object(std::string_view object) const;
};

void StoreReader::State::open(Hdf5Handle opened) {
    file = std::move(opened);
    format.name = hdf5_read_text(file.id(), kStoreFormatAttribute, path);
    format.version = static_cast<int>(hdf5_read_integer(file.id(), kStoreVersionAttribute, path));
    names = array_names(file, path);
    const std::uint64_t arrays = hdf5_read_unsigned(file.id(), kStoreArraysAttribute, path);
    if (arrays != names.size()) {
        fail<FileError>({.where = path,
                         .what = "the store is incomplete",
                         .expected = fmt::format("{} arrays", arrays),
                         .got = fmt::format("{}", names.size())});
    }
}

Hdf5Handle StoreReader::State::open_array(std::string_view name) const {
    if (!contains(name)) {
        fail<FileError>({.where = where(name),
                         .what = "the store has no such array",
                         .got = fmt::format("{} others", names.size())});
    }
    return hdf5_open_dataset(file.id(), std::string(name), where(name));
}

template <StoreElement T>
Hdf5Handle StoreReader::State::open_typed(std::string_view name) const {
    Hdf5Handle array = open_array(name);
    const Hdf5Handle type =
        hdf5_own(H5Dget_type(array.id()), H5Tclose, where(name), "cannot read the type");
    if (H5Tequal(type.id(), store_type<T>()) <= 0) {
        fail<FileError>({.where = where(name),
                         .what = "the array has another type",
                         .expected = hdf5_type_name(store_type<T>()),
                         .got = hdf5_type_name(type.id())});
    }
    return array;
}

template <StoreElement T>
void StoreReader::State::read(const Hdf5Handle& array, std::string_view name,
                              std::span<T> values) const {
    const std::string place = where(name);
    if (!values.empty()) {
        hdf5_check(
            H5Dread(array.id(), store_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
            place, "cannot read the array");
    }
    const std::uint64_t expected = hdf5_read_unsigned(array.id(), kStoreCrcAttribute, place);
    const std::uint32_t got = crc32_of(std::as_bytes(values));
    if (got != expected) {
        fail<FileError>({.where = place,
                         .what = "the array is damaged (checksum)",
                         .expected = fmt::format("CRC-32 {:08x}", expected),
                         .got = fmt::format("{:08x}", got)});
    }
}

Hdf5Handle StoreReader::State::open_object(std::string_view object) const {
    if (!hdf5_exists(file.id(), object)) {
        fail<FileError>({.where = where(object), .what = "the store has no such group or array"});
    }
    return hdf5_own(H5Oopen(file.id(), std::string(object).c_str(), H5P_DEFAULT), H5Oclose,
                    where(object), "cannot open");
}

StoreReader::StoreReader(std::string path, Hdf5Thread& thread)
    : state_(std::make_unique<State>(std::move(path), thread)) {
    state_->stamp = verify_store_file(state_->path);
    thread.run([&] { state_->open(hdf5_open_file(state_->path)); });
}

StoreReader::StoreReader(const StoreImage& image, Hdf5Thread& thread)
    : state_(std::make_unique<State>(image.name, thread)) {
    const auto bytes = std::as_bytes(std::span(image.bytes));
    state_->stamp = verify_store_image(bytes, image.name);
    thread.run([&] { state_->open(hdf5_open_image(bytes, image.name)); });
}

StoreReader::~StoreReader() = default;

const std::string& StoreReader::path() const noexcept {
    return state_->path;
}

const StoreFormat& StoreReader::format() const noexcept {
    return state_->format;
}

StoreStamp StoreReader::stamp() const noexcept {
    return state_->stamp;
}

void StoreReader::require_format(const StoreFormat& expected) const {
    const StoreFormat& got = format();
    if (got != expected) {
        fail<FileError>({.where = path(),
                         .what = "the file holds something else",
                         .expected = fmt::format("{} version {}", expected.name, expected.version),
                         .got = fmt::format("{} version {}", got.name, got.version)});
    }
}

const std::vector<std::string>& StoreReader::names() const noexcept {
    return state_->names;
}

bool StoreReader::contains(std::string_view name) const {
    return state_->contains(name);
}

std::vector<std::int64_t> StoreReader::shape(std::string_view name) const {
    return state_->thread.run(
        [&] { return hdf5_shape(state_->open_array(name).id(), state_->where(name)); });
}

template <StoreElement T>
std::vector<T> StoreReader::get(std::string_view name) const {
    return state_->thread.run([&] {
        const Hdf5Handle array = state_->open_typed<T>(name);
        std::size_t elements = 1;
        for (const std::int64_t extent : hdf5_shape(array.id(), state_->where(name))) {
            elements *= static_cast<std::size_t>(extent);
        }
        std::vector<T> values(elements);
        state_->read<T>(array, name, values);
        return values;
    });
}

template <StoreElement T>
void StoreReader::read_into(std::string_view name, std::span<T> values) const {
    state_->thread.run([&] {
        const Hdf5Handle array = state_->open_typed<T>(name);
        const std::vector<std::int64_t> extents = hdf5_shape(array.id(), state_->where(name));
        std::size_t elements = 1;
        for (const std::int64_t extent : extents) {
            elements *= static_cast<std::size_t>(extent);
        }
        if (elements != values.size()) {
            fail<FileError>(
                {.where = state_->where(name),
                 .what = "the array has another size",
                 .expected = fmt::format("{} elements", values.size()),
                 .got = fmt::format("{} of shape {}", elements, format_shape(extents))});
        }
        state_->read<T>(array, name, values);
    });
}

template std::vector<float> StoreReader::get(std::string_view) const;
template std::vector<double> StoreReader::get(std::string_view) const;
template std::vector<std::int64_t> StoreReader::get(std::string_view) const;
template std::vector<std::uint64_t> StoreReader::get(std::string_view) const;
template std::vector<std::byte> StoreReader::get(std::string_view) const;
template void StoreReader::read_into(std::string_view, std::span<float>) const;
template void StoreReader::read_into(std::string_view, std::span<double>) const;
template void StoreReader::read_into(std::string_view, std::span<std::int64_t>) const;
template void StoreReader::read_into(std::string_view, std::span<std::uint64_t>) const;
template void StoreReader::read_into(std::string_view, std::span<std::byte>) const;

bool StoreReader::has_attribute(std::string_view object, std::string_view name) const {
    return state_->thread.run([&] {
        return hdf5_exists(state_->file.id(), object) &&
               hdf5_has_attribute(state_->open_object(object).id(), std::string(name),
                                  state_->where(object));
    });
}

template <class V>
V StoreReader::attribute(std::string_view object, std::string_view name) const {
    return state_->thread.run([&]() -> V {
        const Hdf5Handle open = state_->open_object(object);
        const std::string key(name);
        const std::string place = state_->where(object);
        if constexpr (std::same_as<V, std::string>) {
            return hdf5_read_text(open.id(), key, place);
        } else if constexpr (std::same_as<V, std::int64_t>) {
            return hdf5_read_integer(open.id(), key, place);
        } else if constexpr (std::same_as<V, std::uint64_t>) {
            return hdf5_read_unsigned(open.id(), key, place);
        } else {
            return hdf5_read_number(open.id(), key, place);
        }
    });
}

template std::string StoreReader::attribute(std::string_view, std::string_view) const;
template double StoreReader::attribute(std::string_view, std::string_view) const;
template std::int64_t StoreReader::attribute(std::string_view, std::string_view) const;
template std::uint64_t StoreReader::attribute(std::string_view, std::string_view) const;

}  // namespace cohort

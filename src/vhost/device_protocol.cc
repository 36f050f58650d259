// SPDX-License-Identifier: Apache-2.0
#include "vhost/device_protocol.h"

#include "vhost/event_fd.h"
#include "vhost/text.h"

#include <algorithm>
#include <utility>

namespace viaduct::vhost {
namespace {

constexpr std::uint32_t kComplaintsMax = 100;

bool needs_fds(Request request) {
    switch (request) {
    case Request::set_mem_table:
    case Request::add_mem_reg:
    case Request::set_vring_kick:
    case Request::set_vring_call:
    case Request::set_vring_err:
    case Request::set_backend_req_fd:
        return true;
    default:
        return false;
    }
}

// Requests whose answer is not a mere yes or no.
bool has_own_answer(Request request) {
    switch (request) {
    case Request::get_features:
    case Request::get_protocol_features:
    case Request::get_queue_num:
    case Request::get_max_mem_slots:
    case Request::get_vring_base:
    case Request::get_config:
        return true;
    default:
        return false;
    }
}

template <class T> Outcome<T> payload_of(const Message& message) {
    const auto value = decode<T>(message.payload);
    if (!value)
        return failure(sentence("payload of {} bytes; {} are right", message.payload.size(), sizeof(T)));
    return *value;
}

std::optional<std::vector<std::byte>> number(std::uint64_t value) {
    return encode(value);
}

} // namespace

DeviceProtocol::DeviceProtocol(DeviceOperations& device)
    : device_(device), vrings_(device), memory_(std::make_shared<MemoryTable>()) {}

std::uint64_t DeviceProtocol::offered_features() const {
    return device_.features() | kFeatureProtocolFeatures;
}

std::uint64_t DeviceProtocol::offered_protocol_features() const {
    return kProtocolMq | kProtocolReplyAck | kProtocolBackendReq | kProtocolBackendSendFd |
           kProtocolResetDevice | kProtocolConfigureMemSlots |
           (device_.config().empty() ? 0 : kProtocolConfig);
}

void DeviceProtocol::complain(const std::string& text) {
    if (complaints_ == kComplaintsMax) return;
    log::warn("vhost-user: {}", text);
    if (++complaints_ == kComplaintsMax)
        log::warn("vhost-user: no more is said about this front end's requests");
}

rt::Task<Result<std::vector<std::byte>>> DeviceProtocol::handle(Message message) {
    const Header header = message.header;
    const Request request = message.request();
    const std::string name = name_of(request);
    if ((header.flags & kFlagReply) != 0) {
        complain(sentence("{}: a reply where a request belongs", name));
        co_return fail(EPROTO);
    }
    if (message.fd_count() > 0 && !needs_fds(request) && request != Request::rem_mem_reg)
        complain(sentence("{}: {} descriptors that it does not take", name, message.fd_count()));
    log::at(log::Level::trace, "vhost-user: {} ({} bytes, {} descriptors)", name, header.size,
            message.fd_count());

    auto result = co_await answer(std::move(message));
    if (!result) complain(sentence("{} refused: {}", name, result.error().message));

    if (has_own_answer(request)) {
        if (result) co_return frame(request, kFlagReply, result->value());
        // An empty configuration says "failed"; the others have no way to say it.
        if (request == Request::get_config) co_return frame(request, kFlagReply, {});
        co_return fail(EPROTO);
    }
    if ((header.flags & kFlagNeedReply) == 0) co_return std::vector<std::byte>{};
    const std::uint64_t verdict = result ? 0 : 1;
    co_return frame(request, kFlagReply, encode(verdict));
}

rt::Task<DeviceProtocol::Answer> DeviceProtocol::answer(Message message) {
    if (auto at_once = answer_at_once(message)) co_return std::move(*at_once);

    Outcome<void> done;
    switch (message.request()) {
    case Request::set_mem_table:
    case Request::add_mem_reg:
    case Request::rem_mem_reg:
        done = co_await change_memory(std::move(message));
        break;
    case Request::set_vring_num:
    case Request::set_vring_base:
    case Request::set_vring_addr:
    case Request::set_vring_enable:
        done = co_await change_vring(std::move(message));
        break;
    case Request::set_vring_kick:
    case Request::set_vring_call:
    case Request::set_vring_err:
        done = co_await set_event(std::move(message));
        break;
    case Request::get_vring_base: {
        CO_TRY(const auto state, payload_of<VringState>(message));
        const auto base = co_await vrings_.get_base(state.index);
        if (!base) co_return std::unexpected{base.error()};
        co_return encode(VringState{.index = state.index, .num = *base});
    }
    case Request::reset_device:
        done = co_await reset_device();
        break;
    case Request::reset_owner:
        // Deprecated; disabling the rings is what it still means.
        co_await vrings_.disable_all();
        break;
    default: {
        const std::uint64_t bit = 1ULL << std::min<std::uint32_t>(message.header.request, 63);
        if ((unknown_seen_ & bit) != 0 && !message.need_reply()) break;
        unknown_seen_ |= bit;
        done = failure("not supported");
        break;
    }
    }
    if (!done) co_return std::unexpected{std::move(done).error()};
    co_return std::nullopt;
}

std::optional<DeviceProtocol::Answer> DeviceProtocol::answer_at_once(Message& message) {
    const auto as_answer = [](const Outcome<void>& done) -> Answer {
        if (!done) return std::unexpected{done.error()};
        return std::nullopt;
    };
    switch (message.request()) {
    case Request::get_features:
        return Answer{number(offered_features())};
    case Request::set_features:
        return as_answer(set_features(message));
    case Request::get_protocol_features:
        return Answer{number(offered_protocol_features())};
    case Request::set_protocol_features:
        return as_answer(set_protocol_features(message));
    case Request::set_owner:
        return Answer{std::nullopt};
    case Request::get_queue_num:
        return Answer{number(device_.queue_count())};
    case Request::get_max_mem_slots:
        return Answer{number(kMemorySlotsMax)};
    case Request::set_backend_req_fd:
        return as_answer(set_backend_channel(message));
    case Request::get_config: {
        auto config = get_config(message);
        if (!config) return Answer{std::unexpected{std::move(config).error()}};
        return Answer{*std::move(config)};
    }
    case Request::set_config:
        return as_answer(set_config(message));
    default:
        return std::nullopt;
    }
}

Outcome<void> DeviceProtocol::set_features(const Message& message) {
    TRY(const auto features, payload_of<std::uint64_t>(message));
    if (const std::uint64_t more = features & ~offered_features(); more != 0)
        return failure(sentence("features {} were not offered", hex(more)));
    TRY_STATUS(vrings_.check_features(features));
    features_ = features;
    vrings_.set_features(features);
    device_.set_features(features & ~kFeatureProtocolFeatures);
    return {};
}

Outcome<void> DeviceProtocol::set_protocol_features(const Message& message) {
    TRY(const auto features, payload_of<std::uint64_t>(message));
    if (const std::uint64_t more = features & ~offered_protocol_features(); more != 0)
        return failure(sentence("protocol features {} were not offered", hex(more)));
    protocol_features_ = features;
    return {};
}

Outcome<void> DeviceProtocol::set_backend_channel(Message& message) {
    if (message.fd_count() != 1) return failure(sentence("{} descriptors; 1 is right", message.fd_count()));
    if (!is_socket(message.fds[0])) return failure("the descriptor is no socket");
    backend_channel_ = std::move(message.fds[0]);
    return {};
}

Outcome<std::vector<std::byte>> DeviceProtocol::get_config(const Message& message) const {
    const auto config = device_.config();
    if (config.empty()) return failure("this device has no configuration of its own (give it a tag)");
    if (message.payload.size() < sizeof(ConfigHeader)) return failure("no room for offset and size");
    TRY(const auto header, [&]() -> Outcome<ConfigHeader> {
        const auto decoded = decode<ConfigHeader>(std::span{message.payload}.first(sizeof(ConfigHeader)));
        if (!decoded) return failure("no room for offset and size");
        return *decoded;
    }());
    if (header.size > kConfigBytesMax || header.size > config.size() ||
        header.offset > config.size() - header.size)
        return failure(sentence("{} bytes at offset {}; the configuration has {}", header.size, header.offset,
                                config.size()));
    auto payload = encode(header);
    const auto part = config.subspan(header.offset, header.size);
    payload.insert(payload.end(), part.begin(), part.end());
    return payload;
}

// Everything in it is read-only; a migration writes back what it read.
Outcome<void> DeviceProtocol::set_config(const Message& message) const {
    TRY(const auto present, get_config(message));
    if (!std::ranges::equal(std::span{present}.subspan(sizeof(ConfigHeader)),
                            std::span{message.payload}.subspan(sizeof(ConfigHeader))))
        return failure("the configuration is read-only");
    return {};
}

Outcome<MemoryChange> DeviceProtocol::memory_change(Message& message) const {
    if (message.surplus_fds > 0) return failure(sentence("{} descriptors are too many", message.fd_count()));
    if (message.request() == Request::set_mem_table) {
        const auto regions = decode_table(message.payload);
        if (!regions)
            return failure(sentence("payload of {} bytes is no table of up to {} regions",
                                    message.payload.size(), kTableRegionsMax));
        return replace_regions(*memory_, *regions, std::move(message.fds));
    }
    TRY(const auto single, payload_of<SingleRegion>(message));
    if (message.request() == Request::rem_mem_reg) return remove_region(*memory_, single.region);
    if (message.fds.size() != 1) return failure(sentence("{} descriptors; 1 is right", message.fds.size()));
    return add_region(*memory_, single.region, std::move(message.fds[0]));
}

rt::Task<Outcome<void>> DeviceProtocol::change_memory(Message message) {
    CO_TRY(auto change, memory_change(message));
    CO_TRY_STATUS(vrings_.check_memory(*change.table));
    const auto set = co_await device_.set_memory(change.table, change.drain);
    if (!set) co_return failure("the device does not take the memory table", set.error());
    memory_ = change.table;
    co_await vrings_.set_memory(change.table);
    co_return Outcome<void>{};
}

rt::Task<Outcome<void>> DeviceProtocol::change_vring(Message message) {
    if (message.request() == Request::set_vring_addr) {
        CO_TRY(const auto address, payload_of<VringAddress>(message));
        co_return co_await vrings_.set_address(address);
    }
    CO_TRY(const auto state, payload_of<VringState>(message));
    switch (message.request()) {
    case Request::set_vring_num:
        co_return co_await vrings_.set_num(state);
    case Request::set_vring_base:
        co_return co_await vrings_.set_base(state);
    default:
        co_return co_await vrings_.set_enable(state);
    }
}

rt::Task<Outcome<void>> DeviceProtocol::set_event(Message message) {
    CO_TRY(const auto payload, payload_of<std::uint64_t>(message));
    const auto index = static_cast<std::uint32_t>(payload & kVringIndexMask);
    const std::size_t expected = (payload & kVringNoFd) != 0 ? 0 : 1;
    if (message.fd_count() != expected)
        co_return failure(
            sentence("queue {}: {} descriptors; {} is right", index, message.fd_count(), expected));
    Fd event;
    if (expected == 1) {
        event = std::move(message.fds[0]);
        if (const auto prepared = prepare_event_fd(event); !prepared)
            co_return failure(sentence("queue {}: the descriptor is no eventfd", index));
    }
    switch (message.request()) {
    case Request::set_vring_kick:
        co_return co_await vrings_.set_kick(index, std::move(event));
    case Request::set_vring_call:
        co_return co_await vrings_.set_call(index, std::move(event));
    default:
        co_return co_await vrings_.set_error(index, std::move(event));
    }
}

// The memory stays (QEMU sends it once per connection), what was negotiated for the device does not.
rt::Task<Outcome<void>> DeviceProtocol::reset_device() {
    co_await device_.reset();
    vrings_.forget();
    features_ &= kFeatureProtocolFeatures;
    vrings_.set_features(features_);
    device_.set_features(0);
    const auto set = co_await device_.set_memory(memory_, false);
    if (set) co_return Outcome<void>{};
    // Neither side has one, then.
    memory_ = std::make_shared<MemoryTable>();
    co_await vrings_.set_memory(memory_);
    co_return failure("the device does not take its memory table back", set.error());
}

rt::Task<void> DeviceProtocol::end() {
    co_await device_.reset();
    vrings_.clear();
    memory_ = std::make_shared<MemoryTable>();
    features_ = protocol_features_ = 0;
    backend_channel_.reset();
}

} // namespace viaduct::vhost

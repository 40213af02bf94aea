"""MQTT: topics, buses, the latest of each topic, and devices that publish."""

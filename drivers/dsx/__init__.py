"""NVIDIA DSX Exchange: points of a building management system on an MQTT broker.

Source: the Exchange's AsyncAPI documents (BMS Event Bus 1.0.0, Apache-2.0).
"""
